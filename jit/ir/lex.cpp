// Splits tile IR text into tokens.
// Under parse.cpp only; every byte sequence gives tokens, wrong ones are refused by the parser.
#include "tileweave/jit/ir/lex.h"

#include <algorithm>
#include <charconv>

#include "tileweave/jit/ir/function.h"

namespace tileweave::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_char(char c) { return is_letter(c) || is_digit(c); }
bool is_value_char(char c) { return is_word_char(c) || c == '.'; }

}  // namespace

Token Lexer::next() {
  skip_blank();
  Token t;
  t.line = line_;
  t.column = static_cast<std::uint32_t>(at_ - line_begin_ + 1);
  if (at_ >= text_.size()) return t;
  const std::size_t begin = at_;
  const char c = text_[at_++];
  if (is_letter(c)) {
    t.kind = Token::Kind::word;
    t.text = take_while(is_word_char, begin);
  } else if (c == '%') {
    t.kind = Token::Kind::value;
    t.text = take_while(is_value_char, at_);
  } else if (is_digit(c) || (c == '-' && at_ < text_.size() && is_word_char(text_[at_]))) {
    return number(t, begin);
  } else if (c == '"') {
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      t.kind = Token::Kind::string;
    } else {
      t.kind = Token::Kind::punctuation;  // unterminated: refused wherever it stands
    }
    t.text = text_.substr(begin, at_ - begin);
  } else {
    t.kind = Token::Kind::punctuation;
    t.text = text_.substr(begin, 1);
  }
  return t;
}

// "12", "-7", "1.5e-3", "-inf".
Token Lexer::number(Token t, std::size_t begin) {
  bool real = false;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const bool sign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
    if (!is_value_char(c) && !sign) break;
    real = real || !is_digit(c);
    ++at_;
  }
  t.kind = real ? Token::Kind::real : Token::Kind::integer;
  t.text = text_.substr(begin, at_ - begin);
  return t;
}

std::string_view Lexer::take_while(bool (*keep)(char), std::size_t begin) {
  while (at_ < text_.size() && keep(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

Place Lexer::take_place() {
  const Place p = place_;
  place_ = {};
  return p;
}

void Lexer::skip_blank() {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == ';') {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      read_comment(text_.substr(at_, end - at_));
      at_ = end;
      if (at_ == text_.size()) return;
    }
    if (text_[at_] == '\n') {
      ++line_;
      line_begin_ = at_ + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

// "; at file:line:column", perhaps after another comment; anything else is for people.
void Lexer::read_comment(std::string_view comment) {
  const std::size_t at = comment.rfind("; at ");
  if (at == std::string_view::npos) return;
  const std::string_view text = comment.substr(at + 5);
  const std::size_t second = text.rfind(':');
  if (second == std::string_view::npos || second == 0) return;
  const std::size_t first = text.rfind(':', second - 1);
  if (first == std::string_view::npos) return;
  std::uint32_t line = 0, column = 0;
  const char* const data = text.data();
  const auto l = std::from_chars(data + first + 1, data + second, line);
  const auto c = std::from_chars(data + second + 1, data + text.size(), column);
  if (l.ec != std::errc() || l.ptr != data + second || c.ec != std::errc() || c.ptr != data + text.size()) return;
  place_ = Place(intern_path(text.substr(0, first)), line, column);
}

}  // namespace tileweave::ir
