// Splits tile IR text into tokens, with the line and column of each.
// Under parse.cpp only; takes text of any origin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tileweave/jit/base/place.h"

namespace tileweave::ir {

struct Token {
  enum class Kind : std::uint8_t { end, word, value, integer, real, string, punctuation };
  Kind kind = Kind::end;
  std::string_view text;  // a value without its %, a string with its quotes
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();
  // The place named by the last `; at file:line:column` comment passed, once.
  Place take_place();

 private:
  void skip_blank();
  void read_comment(std::string_view comment);
  Token number(Token t, std::size_t begin);
  std::string_view take_while(bool (*keep)(char), std::size_t begin);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  std::uint32_t line_ = 1;
  Place place_;
};

}  // namespace tileweave::ir
