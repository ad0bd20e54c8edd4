// How a 64-bit grid of programs becomes one launch: a pure function, tested without a device.
// Between the user's grid and the driver call; the limits are the device's.
#pragma once

#include <cstdint>

#include "tileweave/jit/base/place.h"

namespace tileweave::runtime {

// What a CUDA device can launch.
struct GridLimits {
  std::int64_t x = 2147483647, y = 65535;
};

// A launch of x * y blocks, of which the first `programs` (in the order blockIdx.x + gridDim.x * blockIdx.y) have work.
struct GridPlan {
  std::int64_t programs = 0;  // 0: nothing to launch, which is legal
  std::uint32_t x = 0, y = 0;
};

// The number of programs. A negative axis, or a product of 2^63 and more, is a LaunchError that names the axis.
std::int64_t count_programs(const std::int64_t grid[3], const Place& place = {});

// Folds the grid into one axis while it fits, into two beyond; `cluster` blocks run each program. A grid that no launch
// can hold is a LaunchError with the limit.
GridPlan plan_grid(const std::int64_t grid[3], int cluster = 1, const GridLimits& limits = {}, const Place& place = {});

}  // namespace tileweave::runtime
