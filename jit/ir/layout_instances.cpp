// Blocked, mma, wgmma, ldmatrix and swizzled layouts, each as a few lines of bases.
// Facts of the fragments: PTX ISA 8.3, "Warp-level matrix instructions" and "Asynchronous warpgroup-level matrix".
#include <algorithm>
#include <bit>

#include "tileweave/jit/ir/layout.h"

namespace tileweave::ir {
namespace {

// Hands out the bits of each axis of a tile from the lowest up.
class AxisBits {
 public:
  explicit AxisBits(const Layout& shape) : shape_(shape), used_(static_cast<std::size_t>(shape.rank()), 0) {}
  int left(int axis) const { return shape_.axis_bits(axis) - used_[static_cast<std::size_t>(axis)]; }
  std::uint64_t take(int axis) {
    return std::uint64_t{1} << (shape_.axis_shift(axis) + used_[static_cast<std::size_t>(axis)]++);
  }
  // The next bit along the first axis of `order` that has one, or 0.
  std::uint64_t take_first(std::span<const int> order) {
    for (int axis : order) {
      if (left(axis) > 0) return take(axis);
    }
    return 0;
  }

 private:
  const Layout& shape_;
  std::vector<int> used_;
};

constexpr int lane_bits_of_warp = 5;

}  // namespace

Layout blocked_layout(const std::vector<int>& axis_bits, std::span<const int> order, int vector_bits, int warp_bits,
                      std::span<const int> warp_order) {
  Layout result(axis_bits);
  const Layout shape(axis_bits);
  AxisBits bits(shape);
  if (!order.empty()) {
    for (int i = 0; i < vector_bits && bits.left(order[0]) > 0; ++i) result.add_base(Place4::reg, bits.take(order[0]));
  }
  for (int i = 0; i < lane_bits_of_warp; ++i) result.add_base(Place4::lane, bits.take_first(order));
  for (int i = 0; i < warp_bits; ++i) {
    result.add_base(Place4::warp, bits.take_first(warp_order.empty() ? order : warp_order));
  }
  while (const std::uint64_t base = bits.take_first(order)) result.add_base(Place4::reg, base);
  return result;
}

Layout blocked_layout(const std::vector<int>& axis_bits, std::span<const int> order, std::span<const int> thread_bits,
                      std::span<const int> lane_bits, std::span<const int> warp_bits) {
  Layout result(axis_bits);
  const Layout shape(axis_bits);
  AxisBits bits(shape);
  const auto fill = [&](Place4 p, std::span<const int> counts) {
    for (int axis : order) {
      for (int i = 0; i < counts[static_cast<std::size_t>(axis)]; ++i) {
        if (bits.left(axis) > 0) {
          result.add_base(p, bits.take(axis));
        } else if (p != Place4::reg) {
          result.add_base(p, 0);
        }
      }
    }
  };
  fill(Place4::reg, thread_bits);
  fill(Place4::lane, lane_bits);
  fill(Place4::warp, warp_bits);
  while (const std::uint64_t base = bits.take_first(order)) result.add_base(Place4::reg, base);
  return result;
}

Layout mma_fragment(MmaOperand operand, int bytes) {
  // Elements packed into one 32-bit register.
  const int packed = bytes >= 4 ? 0 : bytes == 2 ? 1 : 2, k_bits = packed + 3;
  const auto k_run = [&](AxisBits& bits, Layout& l, int axis) {
    for (int i = 0; i < packed; ++i) l.add_base(Place4::reg, bits.take(axis));
    for (int i = 0; i < 2; ++i) l.add_base(Place4::lane, bits.take(axis));
  };
  std::vector<int> shape_bits = operand == MmaOperand::a   ? std::vector{4, k_bits}
                                : operand == MmaOperand::b ? std::vector{k_bits, 3}
                                                           : std::vector{4, 3};
  Layout result(shape_bits);
  const Layout shape(shape_bits);
  AxisBits bits(shape);
  if (operand == MmaOperand::a) {
    k_run(bits, result, 1);
    for (int i = 0; i < 3; ++i) result.add_base(Place4::lane, bits.take(0));
    result.add_base(Place4::reg, bits.take(0));
    result.add_base(Place4::reg, bits.take(1));
  } else if (operand == MmaOperand::b) {
    k_run(bits, result, 0);
    for (int i = 0; i < 3; ++i) result.add_base(Place4::lane, bits.take(1));
    result.add_base(Place4::reg, bits.take(0));
  } else {
    result.add_base(Place4::reg, bits.take(1));
    for (int i = 0; i < 2; ++i) result.add_base(Place4::lane, bits.take(1));
    for (int i = 0; i < 3; ++i) result.add_base(Place4::lane, bits.take(0));
    result.add_base(Place4::reg, bits.take(0));
  }
  return result;
}

Layout mma_layout(MmaOperand operand, int bytes, const std::vector<int>& axis_bits, int warp_bits_m, int warp_bits_n) {
  const Layout inner = mma_fragment(operand, bytes);
  std::vector<int> outer_bits;
  for (int a = 0; a < 2; ++a) {
    outer_bits.push_back(std::max(0, axis_bits[static_cast<std::size_t>(a)] - inner.axis_bits(a)));
  }
  Layout outer(outer_bits);
  const Layout shape(outer_bits);
  AxisBits bits(shape);
  const int m_axis = operand == MmaOperand::b ? -1 : 0, n_axis = operand == MmaOperand::a ? -1 : 1;
  const auto warps = [&](int axis, int count) {
    for (int i = 0; i < count; ++i) {
      outer.add_base(Place4::warp, axis >= 0 && bits.left(axis) > 0 ? bits.take(axis) : 0);
    }
  };
  warps(m_axis, warp_bits_m);
  warps(n_axis, warp_bits_n);
  const std::array order{1, 0};
  while (const std::uint64_t base = bits.take_first(order)) outer.add_base(Place4::reg, base);
  return Layout::product(inner, outer);
}

Layout wgmma_accumulator(int n_bits) {
  return mma_layout(MmaOperand::accumulator, 4, {6, n_bits}, /*warp_bits_m=*/2, /*warp_bits_n=*/0);
}

Layout ldmatrix_layout(int log2_count, bool transposed) {
  const int pair_axis = transposed ? 0 : 1, row_axis = 1 - pair_axis;
  Layout result({3 + log2_count, 3});
  const Layout shape({3 + log2_count, 3});
  AxisBits bits(shape);
  result.add_base(Place4::reg, bits.take(pair_axis));
  for (int i = 0; i < 2; ++i) result.add_base(Place4::lane, bits.take(pair_axis));
  for (int i = 0; i < 3; ++i) result.add_base(Place4::lane, bits.take(row_axis));
  for (int i = 0; i < log2_count; ++i) result.add_base(Place4::reg, bits.take(0));
  return result;
}

SharedLayout SharedLayout::swizzled(int row_bits, int column_bits, int element_bytes, int swizzle_bits) {
  const int chunk_bits = std::countr_zero(16u / static_cast<unsigned>(element_bytes));
  const int moved = std::min({swizzle_bits, row_bits, std::max(0, column_bits - chunk_bits)});
  std::vector<std::uint64_t> columns;
  for (int i = 0; i < column_bits + row_bits; ++i) {
    std::uint64_t flat = std::uint64_t{1} << i;
    const int row = i - column_bits;
    if (row >= 0 && row < moved) flat |= std::uint64_t{1} << (chunk_bits + row);
    columns.push_back(flat);
  }
  return {BitMatrix(column_bits + row_bits, std::move(columns)), std::min(chunk_bits, column_bits)};
}

}  // namespace tileweave::ir
