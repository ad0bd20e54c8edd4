// Splits a source file into tokens and finds a kernel's lambda in it. See debug_source.h.
#include "tileweave/dsl/debug_source.h"

#include <cctype>
#include <fstream>
#include <iterator>

namespace tileweave::record {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Comments, directives and character constants leave no token; a string is one.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<SourceToken> run() {
    while (at_ < text_.size()) step();
    match();
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void advance() {
    if (text_[at_] == '\n') {
      ++line_;
      line_begin_ = at_ + 1;
    }
    ++at_;
  }
  void skip_past(std::string_view end) {
    while (at_ < text_.size() && !starts(end)) advance();
    for (std::size_t i = 0; i < end.size() && at_ < text_.size(); ++i) advance();
  }

  void step() {
    const char c = text_[at_];
    if (std::isspace(static_cast<unsigned char>(c)) != 0) return advance();
    if (starts("//")) return skip_past("\n");
    if (starts("/*")) return skip_past("*/");
    if (c == '#' && (tokens_.empty() || tokens_.back().line != line_)) return skip_past("\n");
    if (c == '"' || c == '\'') return quoted(c);
    const std::size_t begin = at_;
    const auto column = static_cast<std::uint32_t>(at_ - line_begin_ + 1);
    const std::uint32_t line = line_;
    auto kind = SourceToken::Kind::mark;
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      kind = SourceToken::Kind::number;
      while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.' || text_[at_] == '\'')) advance();
    } else if (is_word(c)) {
      kind = SourceToken::Kind::word;
      while (at_ < text_.size() && is_word(text_[at_])) advance();
    } else {
      static constexpr std::string_view pairs[] = {"::",  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=",
                                                   ">>=", "<=", ">=", "==", "!=", "&&", "||", "<<", "->"};
      std::size_t length = 1;
      for (const std::string_view p : pairs) {
        if (starts(p) && p.size() > length) length = p.size();
      }
      for (std::size_t i = 0; i < length; ++i) advance();
    }
    tokens_.push_back({kind, text_.substr(begin, at_ - begin), line, column, 0});
  }

  void quoted(char end) {
    const std::size_t begin = at_;
    const auto column = static_cast<std::uint32_t>(at_ - line_begin_ + 1);
    advance();
    while (at_ < text_.size() && text_[at_] != end) {
      if (text_[at_] == '\\') advance();
      if (at_ < text_.size()) advance();
    }
    if (at_ < text_.size()) advance();
    tokens_.push_back({SourceToken::Kind::text, text_.substr(begin, at_ - begin), line_, column, 0});
  }

  void match() {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != SourceToken::Kind::mark) continue;
      const char c = tokens_[i].text[0];
      if (c == '(' || c == '[' || c == '{') open.push_back(i);
      if ((c == ')' || c == ']' || c == '}') && !open.empty()) {
        tokens_[open.back()].partner = i;
        open.pop_back();
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0, line_begin_ = 0;
  std::uint32_t line_ = 1;
  std::vector<SourceToken> tokens_;
};

class Finder {
 public:
  explicit Finder(KernelSource& s) : s_(s), t_(s.tokens) {}

  void run(const Place& place, std::string_view name, std::string_view maker) {
    const std::string quoted = "\"" + std::string(name) + "\"";
    std::size_t best = t_.size();
    for (std::size_t i = 0; i + 2 < t_.size(); ++i) {
      if (t_[i].text != maker || !is(i + 1, "(") || t_[i + 2].text != quoted) continue;
      if (best == t_.size() || distance(i, place) < distance(best, place)) best = i;
    }
    if (best == t_.size()) return;
    std::size_t at = best + 3;
    while (at < t_[best + 1].partner && !is(at, "[")) ++at;
    at = t_[at].partner + 1;
    if (at >= t_.size() || !is(at, "(")) return;
    read_parameters(at + 1, t_[at].partner);
    at = t_[at].partner + 1;
    while (at < t_.size() && !is(at, "{")) ++at;
    if (at >= t_.size()) return;
    s_.found = true;
    read_body(at + 1, t_[at].partner);
  }

 private:
  bool is(std::size_t i, std::string_view text) const { return i < t_.size() && t_[i].text == text; }
  bool is_name(std::size_t i) const { return i < t_.size() && t_[i].kind == SourceToken::Kind::word; }
  std::uint32_t distance(std::size_t i, const Place& p) const {
    return t_[i].line > p.line ? t_[i].line - p.line : p.line - t_[i].line;
  }

  void read_parameters(std::size_t begin, std::size_t end) {
    int depth = 0;
    bool is_const = false;
    std::string name;
    for (std::size_t i = begin; i <= end && i < t_.size(); ++i) {
      const std::string_view text = t_[i].text;
      if (text == "<") ++depth;
      if (text == ">") --depth;
      if (text == "Const" && depth == 0) is_const = true;
      if (is_name(i) && depth == 0) name = text;
      if ((text == "," && depth == 0) || i == end) {
        if (!is_const && !name.empty()) s_.parameters.push_back(name);
        is_const = false;
        name.clear();
      }
    }
  }

  // The end of a statement that begins at i: its `;`, or what closes the brackets around it.
  std::size_t end_of(std::size_t i, std::size_t last) const {
    for (; i < last && !is(i, ";"); ++i) {
      if (t_[i].partner > i) i = t_[i].partner;
    }
    return i;
  }

  std::size_t skip_angles(std::size_t i) const {
    int depth = 0;
    for (; i < t_.size(); ++i) {
      if (is(i, "<")) ++depth;
      if (is(i, ">") && --depth == 0) return i + 1;
      if (is(i, ";") || is(i, "{")) break;
    }
    return i;
  }

  void add(SourceStatement::Kind kind, std::size_t name, std::size_t begin, std::size_t end) {
    const std::uint32_t last = end > 0 && end <= t_.size() ? t_[end - 1].line : t_[name].line;
    s_.statements.push_back({kind, std::string(t_[name].text), t_[name].line, last, begin, end, {}});
  }

  // `auto [a, b] = ...`
  bool bindings(std::size_t open, std::size_t end) {
    const std::size_t close = t_[open].partner;
    if (close <= open || !is(close + 1, "=")) return false;
    const std::size_t last = end_of(close + 2, end);
    s_.statements.push_back(
        {SourceStatement::Kind::bindings, "", t_[open].line, t_[last - 1].line, close + 2, last, {}});
    for (std::size_t i = open + 1; i < close; ++i) {
      if (is_name(i)) s_.statements.back().names.emplace_back(t_[i].text);
    }
    return true;
  }

  void read_body(std::size_t begin, std::size_t end) {
    static constexpr std::string_view assigns[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
    bool starts = true;  // a statement may begin here
    for (std::size_t i = begin; i < end && i < t_.size(); ++i) {
      if (is(i, "for") && is(i + 1, "(") && is(i + 2, "auto") && is_name(i + 3) && is(i + 4, ":")) {
        add(SourceStatement::Kind::loop_index, i + 3, i + 5, t_[i + 1].partner);
        i = t_[i + 1].partner;
        starts = true;
        continue;
      }
      if (starts && declaration(i, end)) {
        starts = false;
        continue;
      }
      if (starts && is_name(i)) {
        for (const std::string_view a : assigns) {
          if (is(i + 1, a)) add(SourceStatement::Kind::assignment, i, i + 2, end_of(i, end));
        }
      }
      starts = is(i, ";") || is(i, "{") || is(i, "}");
    }
  }

  // `auto x = ...`, `tw::Var x = ...`, `tw::Tile<float, 2> x(...)`.
  bool declaration(std::size_t i, std::size_t end) {
    if (is(i, "const")) ++i;
    bool is_var = false;
    if (is(i, "auto")) {
      ++i;
      if (is(i, "[")) return bindings(i, end);
    } else {
      while (is_name(i) && is(i + 1, "::")) i += 2;
      is_var = is(i, "Var");
      if (!is_var && !is(i, "Tile") && !is(i, "Scalar")) return false;
      ++i;
      if (is(i, "<")) i = skip_angles(i);
    }
    if (!is_name(i) || !(is(i + 1, "=") || is(i + 1, "(") || is(i + 1, "{"))) return false;
    const auto kind = is_var ? SourceStatement::Kind::variable : SourceStatement::Kind::value;
    const bool in_brackets = !is(i + 1, "=");
    add(kind, i, i + 2, in_brackets ? t_[i + 1].partner : end_of(i, end));
    return true;
  }

  KernelSource& s_;
  const std::vector<SourceToken>& t_;
};

}  // namespace

KernelSource read_kernel_source(const Place& place, std::string_view name, std::string_view maker) {
  KernelSource s;
  std::ifstream in(place.file, std::ios::binary);
  s.text.assign(std::istreambuf_iterator<char>(in), {});
  s.tokens = Splitter(s.text).run();
  Finder(s).run(place, name, maker);
  return s;
}

}  // namespace tileweave::record
