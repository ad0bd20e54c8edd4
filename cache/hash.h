// The 128-bit hash that names entries and detects damage. It finds and checks bytes; it never decides equality.
// Below key.h and entry.h; hash.cpp is the one file that includes xxHash.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tileweave::cache {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;

  // 32 lower-case hexadecimal digits, the most significant first.
  std::string hex() const;
  static std::optional<Hash128> from_hex(std::string_view text);
};

// XXH3, 128 bits, seed 0.
Hash128 hash128(std::span<const std::byte> bytes);

// Lower-case hexadecimal, two digits a byte.
std::string hex_of(std::span<const std::byte> bytes);
// The bytes of an even number of lower- or upper-case digits, or nothing.
std::optional<std::string> bytes_of_hex(std::string_view text);

}  // namespace tileweave::cache
