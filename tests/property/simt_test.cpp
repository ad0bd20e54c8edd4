// Random programs through the GPU lowering under SIMT emulation, against the interpreter.
// Values agree bit for bit but for sums, which may be taken in another order; and no thread races, strays or diverges.
#include <doctest/doctest.h>

#include "tests/property/compare.h"
#include "tests/property/gpu_kernels.h"
#include "tests/property/random_program.h"
#include "tests/property/simt_executor.h"
#include "tests/property/sweep.h"
#include "tileweave/jit/base/env.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

void check_programs(std::uint64_t first, std::uint64_t count, const RandomOptions& options, const SimtOptions& simt) {
  const Executor emulated = simt_executor(simt);
  const auto failure = check_seeds(
      first, count, [&](std::uint64_t seed) { return random_program(seed, options); },
      [&](const Program& p) { return compare_with_interpreter(p, prepare_for_backend, emulated, true); });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

// Every `step`-th case; all of them in the long run.
void check_sweep(const std::vector<SweepCase>& cases, std::size_t step = 1) {
  REQUIRE(!cases.empty());
  const Executor emulated = simt_executor();
  if (env().long_tests) step = 1;
  for (std::size_t i = 0; i < cases.size(); i += step) {
    const SweepCase& c = cases[i];
    const auto difference = compare_with_interpreter(c.program, prepare_for_backend, emulated, true);
    CHECK_MESSAGE(!difference, c.name << ": " << difference.value_or(""));
  }
}

}  // namespace

TEST_CASE("kernels as users write them, in several orders of warps") {
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const Executor emulated = simt_executor({.seed = seed});
    for (const SweepCase& c : gpu_kernels()) {
      const auto difference = compare_with_interpreter(c.program, prepare_for_backend, emulated, true);
      CHECK_MESSAGE(!difference, c.name << ": " << difference.value_or(""));
    }
  }
}

TEST_CASE("every op row and element type on edge values") { check_sweep(elementwise_sweep()); }

TEST_CASE("every conversion on edge values") { check_sweep(conversion_sweep()); }

TEST_CASE("every reduction of edge values") { check_sweep(reduction_sweep()); }

TEST_CASE("scans, sorts and moves of edge values") { check_sweep(lanes_sweep(), 16); }  // sorts take long

TEST_CASE("random programs on simt:sm_90a") { check_programs(100'001, 200, {}, {}); }

TEST_CASE("random programs on simt:sm_80") { check_programs(110'001, 50, {}, {.target = "simt:sm_80"}); }

TEST_CASE("random programs with other orders of warps") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) check_programs(120'000 + 100 * seed, 25, {}, {.seed = seed});
}

TEST_CASE("random programs of larger tiles") {
  check_programs(130'001, 40, {.ops = 12, .max_elements = 2048, .reductions = 30}, {});
}
