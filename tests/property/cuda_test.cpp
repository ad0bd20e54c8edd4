// The CUDA backend on a real GPU against the interpreter: kernels, op rows, conversions, reductions, random programs.
// The same programs as under SIMT emulation (simt_test.cpp): what is new here is PTX, ptxas and the hardware.
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/property/compare.h"
#include "tests/property/cuda_executor.h"
#include "tests/property/gpu_kernels.h"
#include "tests/property/random_program.h"
#include "tests/property/simt_executor.h"
#include "tests/property/sweep.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/runtime/device.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

bool has_gpu() {
  if (Device::count_cuda() > 0) return true;
  std::printf("SKIP(gpu): %s\n", Device::why_no_cuda().c_str());
  return false;
}

void check_sweep(const std::vector<SweepCase>& cases) {
  REQUIRE(!cases.empty());
  if (!has_gpu()) return;
  const Executor gpu = cuda_executor();
  for (const SweepCase& c : cases) {
    const auto difference = compare_with_interpreter(c.program, prepare_for_backend, gpu, true);
    CHECK_MESSAGE(!difference, c.name << ": " << difference.value_or(""));
  }
}

void check_programs(std::uint64_t first, std::uint64_t count, const RandomOptions& options) {
  if (!has_gpu()) return;
  const Executor gpu = cuda_executor();
  const auto failure = check_seeds(
      first, count * (env().long_tests ? 10 : 1), [&](std::uint64_t seed) { return random_program(seed, options); },
      [&](const Program& p) { return compare_with_interpreter(p, prepare_for_backend, gpu, true); });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

}  // namespace

TEST_CASE("CUDA: kernels as users write them") { check_sweep(gpu_kernels()); }

TEST_CASE("CUDA: every op row and element type on edge values") { check_sweep(elementwise_sweep()); }

TEST_CASE("CUDA: every conversion on edge values") { check_sweep(conversion_sweep()); }

TEST_CASE("CUDA: every reduction of edge values") { check_sweep(reduction_sweep()); }

TEST_CASE("CUDA: scans, sorts and moves of edge values") { check_sweep(lanes_sweep()); }

TEST_CASE("CUDA: random programs") { check_programs(200'001, 150, {}); }

TEST_CASE("CUDA: random programs of larger tiles") {
  check_programs(210'001, 30, {.ops = 12, .max_elements = 2048, .reductions = 30});
}
