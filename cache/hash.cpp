// XXH3-128 and hexadecimal text.
// The one file that includes xxHash; it is compiled in, so no library has to be there at run time.
#include "tileweave/cache/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tileweave::cache {
namespace {

constexpr char digits[] = "0123456789abcdef";

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_hex(std::string& out, std::uint64_t word) {
  for (int shift = 60; shift >= 0; shift -= 4) out += digits[(word >> shift) & 15];
}

std::optional<std::uint64_t> word_of(std::string_view sixteen_digits) {
  std::uint64_t word = 0;
  for (const char c : sixteen_digits) {
    const int value = digit_value(c);
    if (value < 0) return std::nullopt;
    word = word << 4 | static_cast<std::uint64_t>(value);
  }
  return word;
}

}  // namespace

std::string Hash128::hex() const {
  std::string out;
  out.reserve(32);
  append_hex(out, high);
  append_hex(out, low);
  return out;
}

std::optional<Hash128> Hash128::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = word_of(text.substr(0, 16)), low = word_of(text.substr(16));
  if (!high || !low) return std::nullopt;
  return Hash128{*high, *low};
}

Hash128 hash128(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    out += digits[std::to_integer<unsigned>(b) >> 4];
    out += digits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

std::optional<std::string> bytes_of_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_value(text[i]), low = digit_value(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

}  // namespace tileweave::cache
