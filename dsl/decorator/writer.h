// Text of a generated header: indentation, and #line directives that lead back to the user's source.
#pragma once

#include <string>

#include "clang/Basic/SourceManager.h"

namespace tileweave::decorator {

inline constexpr const char* own_line_mark = "#line of this header";
// The marks that own_lines left, as directives for a header of this name.
std::string with_own_lines(const std::string& text, const std::string& file);

class Writer {
 public:
  explicit Writer(const clang::SourceManager& sources) : sources_(sources) {}

  void line(const std::string& text);
  // A line that stands for the user's code at `place`; a directive is written where the lines would not agree.
  void line_at(clang::SourceLocation place, const std::string& text);
  void open() { indent_ += 2; }
  void close() { indent_ -= 2; }
  // Ends the user's lines: from here on the header counts its own.
  void own_lines();
  const std::string& text() const { return text_; }

 private:
  const clang::SourceManager& sources_;
  std::string text_;
  int indent_ = 0;
  std::string file_;        // of the directive in force; empty: none
  unsigned next_line_ = 0;  // what the next line counts as
};

}  // namespace tileweave::decorator
