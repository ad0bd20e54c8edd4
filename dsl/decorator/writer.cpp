// Writes lines with the place they stand for.
#include "writer.h"

namespace tileweave::decorator {

void Writer::line(const std::string& text) {
  text_ += text.empty() ? "\n" : std::string(static_cast<std::size_t>(indent_), ' ') + text + "\n";
  ++next_line_;
}

void Writer::line_at(clang::SourceLocation place, const std::string& text) {
  const clang::PresumedLoc at = sources_.getPresumedLoc(sources_.getExpansionLoc(place));
  if (at.isValid() && (file_ != at.getFilename() || next_line_ != at.getLine())) {
    text_ += "#line " + std::to_string(at.getLine());
    if (file_ != at.getFilename()) text_ += " \"" + std::string(at.getFilename()) + "\"";
    text_ += "\n";
    file_ = at.getFilename();
    next_line_ = at.getLine();
  }
  line(text);
}

void Writer::own_lines() {
  if (file_.empty()) return;
  text_ += std::string(own_line_mark) + "\n";
  file_.clear();
}

std::string with_own_lines(const std::string& text, const std::string& file) {
  std::string out;
  int line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = text.find('\n', at);
    const std::string one = text.substr(at, end - at);
    out += one == own_line_mark ? "#line " + std::to_string(line + 1) + " \"" + file + "\"" : one;
    out += '\n';
    at = end + 1;
  }
  return out;
}

}  // namespace tileweave::decorator
