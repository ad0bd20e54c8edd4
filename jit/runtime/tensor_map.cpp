// From a view's slots to the facts of its tensor map. See tensor_map.h.
#include "tileweave/jit/runtime/tensor_map.h"

#include <algorithm>

namespace tileweave::runtime {

TensorMapFacts tensor_map_facts(const TensorMapPlan& plan, const std::uint64_t* slots) {
  constexpr std::uint64_t alignment = 16;
  const std::uint64_t* view = slots + plan.slot;
  const auto rank = static_cast<std::size_t>(plan.rank);
  const auto bytes = static_cast<std::uint64_t>(plan.element_bytes);
  TensorMapFacts f;
  f.base = view[0];
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(plan.axes[i]);
    const std::uint64_t extent = view[1 + axis];
    if (extent == 0) f.base = alignment;
    f.extents[i] = std::max<std::uint64_t>(extent, 1);
    // The stride of an axis with one element may be anything, and is never used.
    f.strides[i] = i == 0 ? bytes : extent <= 1 ? alignment : view[1 + rank + axis] * bytes;
  }
  return f;
}

}  // namespace tileweave::runtime
