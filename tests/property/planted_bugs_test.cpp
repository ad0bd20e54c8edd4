// The power of SIMT emulation: planted lowering mistakes against the kernels of the test suite.
// A mistake is found where the machine reports a fault or a value differs from the interpreter's.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "tests/property/compare.h"
#include "tests/property/gpu_kernels.h"
#include "tests/property/matmul_kernels.h"
#include "tests/property/planted_bugs.h"
#include "tests/property/random_program.h"
#include "tests/property/simt_executor.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

// What the first kernel says that shows the mistake; nothing where none does. `touched` counts kernels it changed.
std::optional<std::string> find(const PlantedBug& bug, const std::vector<SweepCase>& kernels, int& touched) {
  for (const SweepCase& c : kernels) {
    bool planted = false;
    const Executor wrong = simt_executor({.mutate = [&](llvm::Module& m) { planted = bug.plant(m); }});
    const auto difference = compare_with_interpreter(c.program, prepare_for_backend, wrong, true);
    touched += planted ? 1 : 0;
    if (planted && difference) return c.name + ": " + *difference;
  }
  return std::nullopt;
}

std::vector<SweepCase> suite() {
  std::vector<SweepCase> all = gpu_kernels();
  for (std::uint64_t seed = 130'001; seed <= 130'040; ++seed) {
    Program p = random_program(seed, {.ops = 12, .max_elements = 2048, .reductions = 30});
    all.push_back({"random " + std::to_string(seed), std::move(p)});
  }
  const MatmulShape s{.m = 40, .n = 40, .k = 104, .block_m = 32, .block_n = 32, .block_k = 32, .stages = 3};
  all.push_back(matmul(Dtype::f16, s));
  all.push_back(linear_epilogue(s));
  MatmulShape groups{.m = 64,
                     .n = 72,
                     .k = 232,
                     .block_m = 64,
                     .block_n = 64,
                     .block_k = 32,
                     .b_columns = true,
                     .warps = 4,
                     .stages = 4};
  all.push_back(matmul(Dtype::f16, groups));
  groups.pitch = 1;  // no tensor map: the threads copy for themselves
  all.push_back(matmul(Dtype::f16, groups));
  return all;
}

}  // namespace

TEST_CASE("planted lowering mistakes are found") {
  const std::vector<SweepCase> kernels = suite();
  const std::vector<PlantedBug> bugs = planted_bugs();
  REQUIRE(bugs.size() >= 20);
  int found = 0;
  std::string missed;
  for (const PlantedBug& bug : bugs) {
    int touched = 0;
    const auto how = find(bug, kernels, touched);
    CHECK_MESSAGE(touched > 0, "planted nowhere: " << bug.name);
    found += how ? 1 : 0;
    if (!how) missed += "\n  " + bug.name + " (in " + std::to_string(touched) + " kernels)";
    MESSAGE(bug.name << ": " << (how ? how->substr(0, how->find('\n')) : "NOT FOUND"));
  }
  MESSAGE(found << " of " << bugs.size() << " found");
  // At least 18 of 20; the same share of more.
  CHECK_MESSAGE(found * 20 >= static_cast<int>(bugs.size()) * 18, "missed:" << missed);
}
