// Little-endian numbers and counted bytes, written to and read from memory without trusting the reader's input.
// Shared by the key blob, the entry file and the pack; a reader that met bad input stays bad and yields zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tileweave::cache {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  void u8(std::uint8_t value) { number(value, 1); }
  void u32(std::uint32_t value) { number(value, 4); }
  void u64(std::uint64_t value) { number(value, 8); }
  void bytes(std::span<const std::byte> value) {
    const std::size_t at = out_.size();
    out_.resize(at + value.size());
    std::ranges::copy(value, out_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void text(std::string_view value) { bytes(bytes_of(value)); }

 private:
  void number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::vector<std::byte>& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : rest_(in) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  // A view into the input; no allocation, so a hostile size costs nothing.
  std::span<const std::byte> bytes(std::uint64_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return taken;
  }
  std::string_view text(std::uint64_t size) { return text_of(bytes(size)); }

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    int shift = 0;
    for (const std::byte b : bytes(size)) {
      value |= static_cast<std::uint64_t>(b) << shift;
      shift += 8;
    }
    return value;
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace tileweave::cache
