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

TEST_CASE("CPU: random programs, first half") { check_programs(1'000'001, 1'000, {}); }

TEST_CASE("CPU: random programs, second half") { check_programs(2'000'001, 700, {}); }

TEST_CASE("CPU: random programs for a host without AVX-512") { check_programs(3'000'001, 100, {}, "x86-64-v3"); }

TEST_CASE("CPU: random programs of larger tiles") {
  check_programs(4'000'001, 100, {.ops = 12, .max_elements = 2048, .reductions = 30});
}
