// This program's place in the grid, and the order in which tiles of a matrix are handed to programs.
// The first thing a kernel asks.
#pragma once

#include "tileweave/dsl/memory.h"

namespace tileweave {

inline Scalar<index_t> program_id(int axis, const Place& p = std::source_location::current()) {
  return Scalar<index_t>(record::program_id(axis, p));
}
inline Scalar<index_t> num_programs(int axis, const Place& p = std::source_location::current()) {
  return Scalar<index_t>(record::num_programs(axis, p));
}

// Element offsets of a tile.
struct TileId {
  Scalar<index_t> m, n;
};

// The tile of `view` that this program of a grid of cdiv(M, bm) * cdiv(N, bn) does. Neighbouring programs do tiles of
// the same few rows and columns, which stay in the L2 cache: bands of eight rows of tiles, column by column.
TileId tile_id(const record::Raw& view, index_t bm, index_t bn, const Place& p);
template <class T, detail::ConstInteger M, detail::ConstInteger N>
TileId tile_id(View<T, 2> view, const M& bm, const N& bn, const Place& p = std::source_location::current()) {
  return tile_id(view.raw(), static_cast<index_t>(host_value(bm)), static_cast<index_t>(host_value(bn)), p);
}

}  // namespace tileweave
