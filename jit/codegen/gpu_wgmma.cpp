// Descriptors of wgmma's operands. See gpu_wgmma.h.
// Facts: PTX ISA 8.3, "Asynchronous warpgroup-level matrix shared memory layout" and "Matrix descriptor format".
#include "tileweave/jit/codegen/gpu_wgmma.h"

#include <bit>

namespace tileweave::codegen {
namespace {

constexpr std::uint64_t swizzled_bits = 0x70;  // of an offset: those that the swizzle may add to

}  // namespace

std::optional<WgmmaMatrix> WgmmaMatrix::describe(const MemoryOperand& memory, const std::vector<int>& axis_bits,
                                                 int mn_axis, int k_axis) {
  const ir::Layout shape(axis_bits);
  const auto bytes = static_cast<std::uint64_t>(memory.tile.element_bytes);
  const auto offset = [&](int axis, int bit) {
    return memory.offsets.apply(std::uint64_t{1} << (shape.axis_shift(axis) + bit));
  };
  WgmmaMatrix m;
  m.memory_ = memory;
  m.is_transposed_ = shape.axis_bits(k_axis) > 0 && offset(k_axis, 0) != bytes;
  const int unit = m.is_transposed_ ? mn_axis : k_axis, row = m.is_transposed_ ? k_axis : mn_axis;
  if (m.is_transposed_ && bytes != 2) return std::nullopt;
  // As many neighbours as make a line of up to 128 bytes, then rows one line on each.
  const int unit_bits = shape.axis_bits(unit);
  int span_bits = 0;
  while (span_bits < unit_bits && bytes << span_bits < 128 && offset(unit, span_bits) == bytes << span_bits)
    ++span_bits;
  const std::uint64_t span = bytes << span_bits;
  if (span < 32 || (span < 128 && span_bits < unit_bits)) return std::nullopt;
  for (int i = 0; i < shape.axis_bits(row); ++i) {
    if ((offset(row, i) & ~swizzled_bits) != span << i && offset(row, i) != span << i) return std::nullopt;
  }
  const std::uint64_t next_panel = span_bits < unit_bits ? offset(unit, span_bits) : 16;
  const std::uint64_t mode = span == 128 ? 1 : span == 64 ? 2 : 3;
  m.fields_ = (next_panel >> 4) << 16 | (8 * span >> 4) << 32 | mode << 62;
  return m;
}

void WgmmaMatrix::begin(GpuContext& c, const std::vector<std::uint64_t>& group_bases) {
  std::vector<std::uint64_t> bases(2, 0);
  for (const std::uint64_t b : group_bases) bases.push_back(memory_.offsets.apply(b));
  llvm::Value* at = c.b.CreateAdd(c.call(PrimitiveId::shared_base, {}), memory_.base);
  at = c.b.CreateAdd(at, c.linear(c.b, c.warp(), bases));
  // In a cluster the bits above carry the block's rank.
  llvm::Value* units = c.b.CreateLShr(c.b.CreateAnd(at, c.i32(0x3ffff)), 4);
  start_ = c.b.CreateOr(c.b.CreateZExt(units, c.b.getInt64Ty()), c.i64(static_cast<std::int64_t>(fields_)));
}

llvm::Value* WgmmaMatrix::at(GpuContext& c, std::uint64_t flat) const {
  return c.b.CreateAdd(start_, c.i64(static_cast<std::int64_t>(memory_.offsets.apply(flat) >> 4)));
}

}  // namespace tileweave::codegen
