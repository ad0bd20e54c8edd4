// Folding of grids: see grid.h.
// A pure function between the user's grid and the driver call.
#include "tileweave/jit/runtime/grid.h"

#include <string>

#include "tileweave/jit/base/error.h"

namespace tileweave::runtime {
namespace {

constexpr char axis_names[] = "xyz";

std::string text_of(const std::int64_t grid[3]) {
  return "{" + std::to_string(grid[0]) + ", " + std::to_string(grid[1]) + ", " + std::to_string(grid[2]) + "}";
}

}  // namespace

std::int64_t count_programs(const std::int64_t grid[3], const Place& place) {
  bool empty = false;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] < 0) {
      throw_launch_error(place, "grid " + text_of(grid) + ": axis " + axis_names[i] + " is negative",
                         "pass the number of programs along each axis");
    }
    empty |= grid[i] == 0;
  }
  if (empty) return 0;
  std::int64_t total = 1;
  for (int i = 0; i < 3; ++i) {
    if (__builtin_mul_overflow(total, grid[i], &total)) {
      throw_launch_error(place,
                         "grid " + text_of(grid) + ": with axis " + axis_names[i] +
                             " the number of programs passes the limit 9223372036854775807 (2^63 - 1)",
                         "let each program do more work");
    }
  }
  return total;
}

GridPlan plan_grid(const std::int64_t grid[3], int cluster, const GridLimits& limits, const Place& place) {
  GridPlan plan;
  plan.programs = count_programs(grid, place);
  if (plan.programs == 0) return plan;
  // A row of blocks must hold whole clusters.
  const std::int64_t row = limits.x / cluster;
  if (plan.programs <= row) {
    plan.x = static_cast<std::uint32_t>(plan.programs * cluster);
    plan.y = 1;
    return plan;
  }
  // Rows as even as they can be, so that few blocks of the last row are idle.
  const std::int64_t rows = (plan.programs - 1) / row + 1;
  if (rows > limits.y) {
    int axis = 0;
    for (int i = 1; i < 3; ++i) axis = grid[i] > grid[axis] ? i : axis;
    throw_launch_error(place,
                       "grid " + text_of(grid) + " has " + std::to_string(plan.programs) +
                           " programs, most along axis " + axis_names[axis] +
                           "; folded into axes x and y it passes the limit " + std::to_string(limits.y) + " of axis y",
                       "let each program do more work: at most " + std::to_string(row * limits.y) + " fit");
  }
  plan.x = static_cast<std::uint32_t>(((plan.programs - 1) / rows + 1) * cluster);
  plan.y = static_cast<std::uint32_t>(rows);
  return plan;
}

}  // namespace tileweave::runtime
