// A TMA descriptor as the emulation knows it: 128 bytes like the driver's, but in the open.
// Made where the runtime would ask the driver to encode one; read by tma_load and tma_store.
#pragma once

#include <cstdint>

namespace tileweave::runtime::simt {

struct alignas(64) TensorMap {
  static constexpr std::uint64_t expected_magic = 0x70616d2d746d6973u;  // "simt-map"
  std::uint64_t magic = expected_magic;
  std::uint64_t base = 0;
  std::uint32_t rank = 0;
  std::uint32_t element_bytes = 0;
  std::uint64_t extents[5] = {};  // in elements, innermost first
  std::uint64_t strides[5] = {};  // in bytes; [0] is element_bytes
  std::uint32_t box[5] = {};
  std::uint32_t swizzle_bytes = 0;  // 0, 32, 64 or 128
};
static_assert(sizeof(TensorMap) == 128);

// Where the hardware puts the byte that would lie at `offset` without swizzling.
constexpr std::int64_t swizzled(std::int64_t offset, std::uint32_t swizzle_bytes) {
  const std::int64_t mask = swizzle_bytes >= 32 ? swizzle_bytes / 16 - 1 : 0;
  return offset ^ (((offset >> 7) & mask) << 4);
}

}  // namespace tileweave::runtime::simt
