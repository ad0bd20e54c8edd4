// Text of printed values. See print_text.h.
#include "tileweave/jit/base/print_text.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>

#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/base/fork.h"

namespace tileweave {

std::string element_text(Dtype t, std::uint64_t bits) {
  return visit_dtype(t, [bits]<class T>(std::type_identity<T>) -> std::string {
    if constexpr (std::is_same_v<T, bool>) {
      return bits != 0 ? "true" : "false";
    } else {
      T value;
      std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
      if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
      } else {
        char text[40];
        if constexpr (std::is_same_v<T, double>) {
          std::snprintf(text, sizeof text, "%.17g", value);
        } else {
          std::snprintf(text, sizeof text, "%.9g", static_cast<double>(static_cast<float>(value)));
        }
        return text;
      }
    }
  });
}

std::string print_prefix(std::string_view place, std::string_view kernel, std::int64_t program,
                         std::string_view label) {
  std::string line(place);
  if (!line.empty()) line += ": ";
  line += std::string(kernel) + "[" + std::to_string(program) + "]";
  if (!label.empty()) line += " " + std::string(label);
  return line + ":";
}

std::string assert_text(std::string_view kernel, std::int64_t program, std::string_view message) {
  return "kernel '" + std::string(kernel) + "': device_assert failed in program " + std::to_string(program) + ": " +
         std::string(message);
}

std::string check_text(std::string_view kernel, std::int64_t program, std::string_view what, std::int64_t index,
                       std::int64_t extent) {
  return "kernel '" + std::string(kernel) + "': " + std::string(what) + ": index " + std::to_string(index) +
         ", extent " + std::to_string(extent) + ", in program " + std::to_string(program);
}

Place place_from_text(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::uint32_t line = 0;
  if (colon == std::string_view::npos) return {};
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), line);
  if (line == 0) return {};
  static constinit LeafMutex mutex;
  const std::lock_guard lock(mutex);
  static auto& paths = *new std::set<std::string, std::less<>>;
  return Place(paths.emplace(text.substr(0, colon)).first->c_str(), line);
}

}  // namespace tileweave
