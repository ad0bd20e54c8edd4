// Facts of layouts along one axis: see gpu_axis.h.
// Used by gpu_lower_scan.cpp, gpu_lower_sort.cpp and gpu_lower_move.cpp.
#include "tileweave/jit/codegen/gpu_axis.h"

#include <bit>

namespace tileweave::codegen {

bool has_simple_axis(const ir::Layout& l, int axis) {
  if (!is_movable(l)) return false;
  for (int bit = 0; bit < l.axis_bits(axis); ++bit) {
    const std::uint64_t flat = std::uint64_t{1} << (l.axis_shift(axis) + bit);
    int holders = 0;
    for (ir::Place4 p : {ir::Place4::reg, ir::Place4::lane, ir::Place4::warp}) {
      for (const std::uint64_t base : l.bases(p)) {
        if ((base & flat) == 0) continue;
        ++holders;
        if (base != flat) return false;
      }
    }
    if (holders != 1) return false;
  }
  return true;
}

}  // namespace tileweave::codegen
