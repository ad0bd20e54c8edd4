// The channel by which a GPU kernel talks to the host: the buffer's layout, and what its records mean.
// Agreed between codegen, which emits the writes (gpu_lower_host.cpp), and the runtime, which reads them (channel.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/jit/base/dtype.h"

namespace tileweave {

// A kernel whose Binary::meta has channel texts takes one more parameter after the grid: the buffer's address.
//   offset 0    u32 records asked for by device_print; those past the capacity are not written
//   offset 4    u32 failures noted by device_assert and checks
//   offset 64   failures, then prints: 32 bytes each
//               u64 text number | element index << 32;  u64 program;  u64 bits or index;  u64 extent
namespace channel {
inline constexpr std::int64_t header_bytes = 64, record_bytes = 32;
inline constexpr std::int64_t failure_capacity = 254, print_capacity = 65'536;
inline constexpr std::int64_t prints_at = header_bytes + failure_capacity * record_bytes;
inline constexpr std::int64_t bytes = prints_at + print_capacity * record_bytes;
}  // namespace channel

// One device_print, device_assert or check of a kernel, by number.
struct ChannelText {
  enum class Kind : std::uint8_t { print, failure, check };
  Kind kind = Kind::print;
  Dtype type = Dtype::f32;    // of a print
  std::int64_t elements = 1;  // of a print
  std::string place;          // "file:line"
  std::string text;           // label or message
};

// As words for Binary::meta, and back; other words of `meta` are passed over.
std::string channel_words(const std::vector<ChannelText>& texts);
std::vector<ChannelText> channel_texts(std::string_view meta);

}  // namespace tileweave
