// A place in the user's source. Travels beside every recorded operation, never inside a cache key.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace tileweave {

struct Place {
  const char* file = "";  // static storage (from std::source_location) or interned; never owned
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  constexpr Place() = default;
  constexpr Place(const char* f, std::uint32_t l, std::uint32_t c = 0) : file(f), line(l), column(c) {}
  constexpr Place(const std::source_location& s) : file(s.file_name()), line(s.line()), column(s.column()) {}
  constexpr bool known() const { return line != 0; }
};

// "matmul.cpp:41", or "" where the place is not known.
inline std::string to_string(const Place& p) {
  return p.known() ? std::string(p.file) + ":" + std::to_string(p.line) : std::string();
}

}  // namespace tileweave
