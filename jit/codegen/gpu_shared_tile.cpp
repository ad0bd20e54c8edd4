// The swizzled tile and its addresses. See gpu_shared_tile.h.
// The swizzle: CUDA driver API, CU_TENSOR_MAP_SWIZZLE_*; PTX ISA 8.3, "Shared memory matrix layout".
#include "tileweave/jit/codegen/gpu_shared_tile.h"

#include <algorithm>
#include <bit>

namespace tileweave::codegen {

SharedTile swizzled_tile(const std::vector<int>& axis_bits, int unit_axis, int element_bytes) {
  constexpr int line_bits = 7, chunk_bits = 4;
  const ir::Layout shape(axis_bits);
  const int byte_bits = std::countr_zero(static_cast<unsigned>(element_bytes));
  const int row_bits = shape.axis_bits(unit_axis) + byte_bits, span_bits = std::min(line_bits, row_bits);
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(shape.flat_bits()));
  const auto of_axis = [&](int axis, int i) -> std::uint64_t& {
    return offsets[static_cast<std::size_t>(shape.axis_shift(axis) + i)];
  };
  int next = span_bits;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    for (int i = 0; axis != unit_axis && i < shape.axis_bits(axis); ++i, ++next) {
      of_axis(axis, i) = std::uint64_t{1} << next;
      const int moved = next - line_bits;
      if (moved >= 0 && moved < span_bits - chunk_bits) of_axis(axis, i) |= std::uint64_t{1} << (chunk_bits + moved);
    }
  }
  for (int i = 0; i < shape.axis_bits(unit_axis); ++i) {
    of_axis(unit_axis, i) = std::uint64_t{1} << (byte_bits + i < span_bits ? byte_bits + i : next++);
  }
  const int offset_bits = shape.flat_bits() + byte_bits;
  return {unit_axis, element_bytes, std::int64_t{1} << offset_bits, ir::BitMatrix(offset_bits, std::move(offsets))};
}

SharedAddress::SharedAddress(GpuContext& c, llvm::Value* base, const std::vector<std::uint64_t>& thread_bases)
    : c_(c), base_(base), thread_(c.thread_linear(thread_bases)) {
  for (const std::uint64_t b : thread_bases) of_thread_ |= b;
}

llvm::Value* SharedAddress::at(std::uint64_t own) {
  const std::uint64_t both = own & of_thread_, rest = own & ~of_thread_;
  llvm::Value*& start = starts_[both];
  if (start == nullptr) start = c_.b.CreateAdd(base_, both == 0 ? thread_ : c_.b.CreateXor(thread_, both));
  return rest == 0 ? start : c_.b.CreateAdd(start, c_.i32(static_cast<std::int64_t>(rest)));
}

}  // namespace tileweave::codegen
