// Reads the text of simt_about.h.
// Between the loaded object and the machine.
#include "tileweave/jit/runtime/simt_about.h"

#include <charconv>
#include <string>

#include "tileweave/jit/base/error.h"

namespace tileweave::runtime::simt {
namespace {

[[noreturn]] void refuse() {
  throw_launch_error({}, "emulated kernel: its description is damaged", "clear the cache and let it be compiled again");
}

template <class T>
T take_number(std::string_view& rest) {
  T value{};
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (code != std::errc()) refuse();
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  return value;
}

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 1 < text.size();
    out += !escaped ? text[i] : text[i + 1] == 'n' ? '\n' : text[i + 1];
    i += escaped ? 1 : 0;
  }
  return out;
}

void parse_line(std::string_view line, About& about) {
  const std::string_view kind = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(line.size(), kind.size() + 1));
  if (kind == "site") {
    const auto number = take_number<std::uint32_t>(line), column = take_number<std::uint32_t>(line);
    about.sites.push_back({std::string(line), number, column});
  } else if (kind == "text") {
    about.texts.push_back(unescape(line));
  } else if (kind == "view") {
    const int slot = take_number<int>(line), rank = take_number<int>(line);
    about.views.push_back({slot, rank, take_number<int>(line)});
  } else {
    refuse();
  }
}

}  // namespace

About parse_about(std::string_view text) {
  About about;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parse_line(text.substr(0, end), about);
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return about;
}

}  // namespace tileweave::runtime::simt
