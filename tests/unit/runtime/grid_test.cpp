// Folding of 64-bit grids into launches that a device takes.
// Tests jit/runtime/grid; cases 7C and 8 of the shared list.
#include "tileweave/jit/runtime/grid.h"

#include <doctest/doctest.h>

#include <string>

#include "tileweave/jit/base/error.h"

namespace tileweave::runtime {
namespace {

GridPlan plan(std::int64_t x, std::int64_t y, std::int64_t z, int cluster = 1) {
  const std::int64_t grid[3] = {x, y, z};
  return plan_grid(grid, cluster);
}
std::string error_of(std::int64_t x, std::int64_t y, std::int64_t z) {
  try {
    plan(x, y, z);
  } catch (const LaunchError& e) {
    return e.what();
  }
  return "no error";
}

TEST_CASE("a grid that fits is one row of blocks") {
  const GridPlan p = plan(5, 7, 3);
  CHECK(p.programs == 105);
  CHECK(p.x == 105);
  CHECK(p.y == 1);
  CHECK(plan(2147483647, 1, 1).x == 2147483647u);
}

TEST_CASE("a zero-size grid launches nothing") {
  for (const GridPlan p : {plan(0, 5, 5), plan(5, 0, 5), plan(5, 5, 0), plan(0, INT64_MAX, INT64_MAX)}) {
    CHECK(p.programs == 0);
    CHECK(p.x == 0);
  }
}

TEST_CASE("products over 31 bits are folded into two axes that cover every program") {
  struct Case {
    std::int64_t x, y, z, programs;
  };
  for (const Case& c : {Case{65536, 32768, 1, 2147483648}, Case{65536, 65535, 1, 4294901760},
                        Case{49152, 65536, 1, 3221225472}, Case{2147483647, 65535, 1, 140735340806145}}) {
    const GridPlan p = plan(c.x, c.y, c.z);
    CHECK(p.programs == c.programs);
    CHECK(p.x <= 2147483647u);
    CHECK(p.y <= 65535u);
    const std::int64_t blocks = std::int64_t{p.x} * p.y;
    CHECK(blocks >= c.programs);
    CHECK(blocks - c.programs < p.y);  // at most one idle block a row
  }
}

TEST_CASE("an axis over its CUDA limit folds: y alone and z alone") {
  CHECK(plan(1, 65536, 1).x == 65536);
  CHECK(plan(1, 1, 65536).x == 65536);
  CHECK(plan(1, 1, 65536).y == 1);
}

TEST_CASE("rows hold whole clusters") {
  const GridPlan p = plan(1073741824, 3, 1, 2);
  CHECK(p.programs == 3221225472);
  CHECK(p.x % 2 == 0);
  CHECK(std::int64_t{p.x} * p.y >= 2 * p.programs);
  CHECK(plan(10, 1, 1, 4).x == 40);
}

TEST_CASE("impossible grids are refused with the axis and the limit") {
  CHECK(error_of(-1, 2, 3) ==
        "error: grid {-1, 2, 3}: axis x is negative\n  help: pass the number of programs along each axis");
  CHECK(error_of(4, 2, -3).find("axis z is negative") != std::string::npos);
  CHECK(error_of(std::int64_t{1} << 32, std::int64_t{1} << 31, 1) ==
        "error: grid {4294967296, 2147483648, 1}: with axis y the number of programs passes the limit "
        "9223372036854775807 (2^63 - 1)\n  help: let each program do more work");
  CHECK(error_of(2147483647, 65536, 1) ==
        "error: grid {2147483647, 65536, 1} has 140737488289792 programs, most along axis x; folded into axes x and y "
        "it passes the limit 65535 of axis y\n  help: let each program do more work: at most 140735340806145 fit");
}

}  // namespace
}  // namespace tileweave::runtime
