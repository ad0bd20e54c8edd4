// The swizzled tile of shared memory: a permutation of its bytes, the swizzle that the hardware names, and no bank
// conflicts for the reads of ldmatrix. Under jit/codegen/gpu_shared_tile.h.
#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "tileweave/jit/codegen/gpu_shared_tile.h"

using namespace tileweave;
using codegen::SharedTile;
using codegen::swizzled_tile;

namespace {

// The 16-byte bank of a byte offset.
std::uint64_t bank(std::uint64_t offset) { return offset / 16 % 8; }

// Eight rows of 16 bytes, from every multiple of eight rows and every chunk: all in different banks.
bool reads_without_conflicts(const SharedTile& t, const std::vector<int>& bits) {
  const ir::Layout shape(bits);
  const int row_axis = 1 - t.unit_axis;
  const std::uint64_t chunk = 16u / static_cast<unsigned>(t.element_bytes);
  for (std::uint64_t first = 0; first < std::uint64_t{1} << shape.axis_bits(row_axis); first += 8) {
    for (std::uint64_t column = 0; column < std::uint64_t{1} << shape.axis_bits(t.unit_axis); column += chunk) {
      std::set<std::uint64_t> banks;
      for (std::uint64_t r = first; r < first + 8; ++r) {
        banks.insert(bank(t.offset(r << shape.axis_shift(row_axis) | column << shape.axis_shift(t.unit_axis))));
      }
      if (banks.size() != 8) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a swizzled tile is a permutation, and eight rows of a matrix lie in eight banks") {
  for (const int bytes : {1, 2, 4}) {
    for (int row_bits = 3; row_bits <= 7; ++row_bits) {
      for (int column_bits = 3; column_bits <= 8; ++column_bits) {
        if (bytes << column_bits < 16) continue;
        for (const int unit : {0, 1}) {
          const std::vector<int> bits =
              unit == 1 ? std::vector{row_bits, column_bits} : std::vector{column_bits, row_bits};
          const SharedTile t = swizzled_tile(bits, unit, bytes);
          CAPTURE(bytes);
          CAPTURE(row_bits);
          CAPTURE(column_bits);
          CHECK(t.bytes == std::int64_t{bytes} << (row_bits + column_bits));
          CHECK(t.offset_of_flat.rank() == row_bits + column_bits);
          CHECK(reads_without_conflicts(t, bits));
        }
      }
    }
  }
}

// CU_TENSOR_MAP_SWIZZLE_128B, 64B and 32B: bits 4.. of the offset xor bits 7.., three, two and one of them.
TEST_CASE("the swizzle is the one of tensor maps") {
  for (const int span_bits : {5, 6, 7}) {
    const SharedTile t = swizzled_tile({6, span_bits - 1}, 1, 2);
    const std::uint64_t mask = (std::uint64_t{1} << (span_bits - 4)) - 1;
    for (std::uint64_t flat = 0; flat < std::uint64_t{1} << (5 + span_bits); ++flat) {
      const std::uint64_t plain = 2 * flat;
      CHECK(t.offset(flat) == (plain ^ (plain >> 7 & mask) << 4));
    }
  }
}

TEST_CASE("rows of more than 128 bytes are panels of 128 bytes") {
  const SharedTile t = swizzled_tile({4, 7}, 1, 2);  // 16 rows of 256 bytes
  CHECK(t.offset(64) == 16 * 128);
  CHECK(t.offset(1 << 7) == (128 | 16));
}
