// What a tensor map says, worked out from the slots of a launch: the step before the driver encodes it, and before the
// emulation keeps it as it is.
#pragma once

#include <array>
#include <cstdint>

#include "tileweave/jit/base/tensor_map.h"

namespace tileweave::runtime {

struct TensorMapFacts {
  std::uint64_t base = 0;
  std::array<std::uint64_t, TensorMapPlan::most_axes> extents{};  // in elements, innermost first
  std::array<std::uint64_t, TensorMapPlan::most_axes> strides{};  // in bytes; [0] is an element's
  friend bool operator==(const TensorMapFacts&, const TensorMapFacts&) = default;
};
// A view of extent 0 has nothing to read: it is given an extent of 1 at an address that nothing reads, because the
// kernel asks for coordinates outside then.
TensorMapFacts tensor_map_facts(const TensorMapPlan& plan, const std::uint64_t* slots);

}  // namespace tileweave::runtime
