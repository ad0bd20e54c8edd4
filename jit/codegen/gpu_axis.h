// How one bit of a tile's coordinate along an axis is spread over registers, lanes and warps: what scans and sorts walk
// along. Facts of a linear layout; nothing here emits code.
#pragma once

#include <cstdint>

#include "tileweave/jit/ir/layout.h"

namespace tileweave::codegen {

// The change of place that turns some bits of a coordinate: in every thread, register r ^ reg of thread
// (lane ^ lane, warp ^ warp) holds the element with those bits turned.
struct PlaceMove {
  std::uint64_t reg = 0, lane = 0, warp = 0;
};

inline PlaceMove place_move(const ir::Layout& l, std::uint64_t flat) {
  const std::uint64_t place = l.inverse().apply(flat);
  const int regs = l.bits(ir::Place4::reg), lanes = l.bits(ir::Place4::lane);
  const auto low = [](int bits) { return (std::uint64_t{1} << bits) - 1; };
  return {place & low(regs), place >> regs & low(lanes), place >> (regs + lanes) & low(l.bits(ir::Place4::warp))};
}
inline PlaceMove axis_move(const ir::Layout& l, int axis, int bit) {
  return place_move(l, std::uint64_t{1} << (l.axis_shift(axis) + bit));
}

// Whether every element is held once, free bits aside: then moves of places are moves of elements.
inline bool is_movable(const ir::Layout& l) { return l.is_surjective() && l.is_injective_but_free(); }
// Whether, beside that, each bit along the axis is one bit of a register's, a lane's or a warp's number.
bool has_simple_axis(const ir::Layout& l, int axis);

}  // namespace tileweave::codegen
