// The CPU backend against the interpreter: every op row, conversion and reduction on edge values, and random programs.
// Values agree bit for bit but for sums, which may be taken in another order.
#include <doctest/doctest.h>

#include "tests/property/compare.h"
#include "tests/property/cpu_executor.h"
#include "tests/property/gpu_kernels.h"
#include "tests/property/random_program.h"
#include "tests/property/sweep.h"
#include "tileweave/jit/base/env.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

void check_programs(std::uint64_t first, std::uint64_t count, const RandomOptions& options,
                    const std::string& target = "native") {
  const Executor compiled = cpu_executor(target);
  const auto failure = check_seeds(
      first, count * (env().long_tests ? 10 : 1), [&](std::uint64_t seed) { return random_program(seed, options); },
      [&](const Program& p) { return compare_with_interpreter(p, prepare_for_cpu, compiled); });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

void check_sweep(const std::vector<SweepCase>& cases) {
  REQUIRE(!cases.empty());
  const Executor compiled = cpu_executor();
  for (const SweepCase& c : cases) {
    const auto difference = compare_with_interpreter(c.program, prepare_for_cpu, compiled);
    CHECK_MESSAGE(!difference, c.name << ": " << difference.value_or(""));
  }
}

}  // namespace

TEST_CASE("CPU: kernels as users write them") { check_sweep(gpu_kernels()); }

TEST_CASE("CPU: every op row and element type on edge values") { check_sweep(elementwise_sweep()); }

TEST_CASE("CPU: every conversion on edge values") { check_sweep(conversion_sweep()); }

TEST_CASE("CPU: every reduction of edge values") { check_sweep(reduction_sweep()); }

TEST_CASE("CPU: scans, sorts and moves of edge values") { check_sweep(lanes_sweep()); }

// LLVM 19 takes select(c, (x & m) | (y & ~m), x) for a masked vpternlog with a wrong table: see x86_masked_logic.h.
TEST_CASE("CPU: a select between a value and its bits mixed with another's") {
  for (const std::string logic : {"bit_or", "bit_xor"}) {
    Program p;
    p.seed = 7;
    p.function = ir::parse(R"(func "mixed"(%0: view<const u32, 1>, %1: view<const u32, 1>, %2: view<u32, 1>) {
  %3 = constant {value = 0} : i64
  %4 = load %0, %3 {extents = [64], pad = 0} : u32[64]
  %5 = load %1, %3 {extents = [64], pad = 0} : u32[64]
  %6 = constant {value = 2147483648} : u32[64]
  %7 = constant {value = 2147483647} : u32[64]
  %8 = bit_and %4, %6 : u32[64]
  %9 = bit_and %5, %7 : u32[64]
  %10 = )" + logic + R"( %8, %9 : u32[64]
  %11 = lt %4, %5 : bool[64]
  %12 = where %11, %10, %4 : u32[64]
  store %2, %3, %12
})");
    for (const bool is_output : {false, false, true}) {
      Argument a;
      a.extents = {64};
      a.strides = {1};
      a.is_output = is_output;
      p.arguments.push_back(a);
    }
    const auto difference = compare_with_interpreter(p, prepare_for_cpu, cpu_executor());
    CHECK_MESSAGE(!difference, difference.value_or(""));
  }
}

// 10,000 programs in all: three quarters of them short, which covers more kinds of neighbours for the same time.
TEST_CASE("CPU: random programs, first half") {
  check_programs(1'000'001, 900, {});
  check_programs(5'000'001, 4'100, {.ops = 8});
}

TEST_CASE("CPU: random programs, second half") {
  check_programs(2'000'001, 700, {});
  check_programs(6'000'001, 4'050, {.ops = 8});
}

TEST_CASE("CPU: random programs for a host without AVX-512") { check_programs(3'000'001, 150, {}, "x86-64-v3"); }

TEST_CASE("CPU: random programs of larger tiles") {
  check_programs(4'000'001, 100, {.ops = 12, .max_elements = 2048, .reductions = 30});
}
