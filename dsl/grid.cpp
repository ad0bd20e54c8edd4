// tile_id: the grouped order of a matrix's tiles, written in the language itself.
// Called by kernels that work on tiles of a matrix.
#include "tileweave/dsl/grid.h"

#include <string>

#include "tileweave/jit/base/error.h"

namespace tileweave {

TileId tile_id(const record::Raw& view, index_t bm, index_t bn, const Place& p) {
  if (bm < 1 || bn < 1) {
    throw_record_error(p, "tile_id: tiles of " + std::to_string(bm) + " x " + std::to_string(bn) + " elements",
                       "both extents are at least 1");
  }
  constexpr index_t band = 8;
  using Index = Scalar<index_t>;
  const Index id = program_id(0, p);
  const Index rows(cdiv(Index(record::view_extent(view, 0, p)), bm), p);
  const Index columns(cdiv(Index(record::view_extent(view, 1, p)), bn), p);
  const Index group(id / (columns * band), p);
  const Index first(group * band, p);
  const Index in_band(minimum(rows - first, band), p);
  const Index within(id - group * (columns * band), p);
  return {Index((first + within % in_band) * bm, p), Index(within / in_band * bn, p)};
}

}  // namespace tileweave
