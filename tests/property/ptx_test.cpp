// Every test kernel as PTX, assembled for sm_80 and sm_90a; and what must and must not stand in the text.
// Values are compared under SIMT emulation (simt_test.cpp), which runs the same lowering: here the other half is
// tested.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/property/gpu_kernels.h"
#include "tests/property/simt_executor.h"
#include "tests/property/sweep.h"
#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/assemble.h"
#include "tileweave/jit/codegen/codegen.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

std::string ptx_of(const SweepCase& c, const std::string& target, bool contract = true) {
  ir::Function f = c.program.function.clone();
  f.options.contract = contract;
  prepare_for_backend(f);
  return codegen::compile_to_text(f, codegen::parse_target(target), codegen::Emit::assembly);
}

std::string ptx_of(const std::string& name, const std::string& target, bool contract = true) {
  for (const SweepCase& c : gpu_kernels()) {
    if (c.name == name) return ptx_of(c, target, contract);
  }
  FAIL("there is no kernel '" << name << "'");
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void remove_all(std::string& text, const std::string& part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

// What the lowering never asks for: contraction, flushed subnormals, inexact division and roots, library calls. But the
// short forms take approximations where the bound holds (docs/accuracy.md): of powers and reciprocals, whose operands
// they keep out of the subnormals, and of roots for types of 16 and 8 bits.
std::string forbidden_part(std::string ptx, const std::string& name) {
  for (const char* part : {"ex2.approx.ftz", "rcp.approx.ftz"}) remove_all(ptx, part);
  const bool is_short = name.find("f16") != std::string::npos || name.find("f8e") != std::string::npos;
  if (is_short) remove_all(ptx, "sqrt.approx");
  for (const char* part : {".ftz", "div.full", "div.approx", "sqrt.approx", ".extern .func"}) {
    if (has(ptx, part)) return part;
  }
  return "";
}

// The problem with one case, empty where there is none.
std::string problem_with(const SweepCase& c, const std::string& target) {
  try {
    const std::string ptx = ptx_of(c, target);
    const std::string part = forbidden_part(ptx, c.name);
    if (!part.empty()) return "its PTX has '" + part + "'";
    if (!has(ptx, (".target " + target).c_str())) return "its PTX is for another target";
    const codegen::Assembled done = codegen::assemble(ptx, target, c.name, AssemblerChoice::ptxas);
    if (done.code.empty() || !has(done.meta, "registers=")) return "ptxas gave no code, or no count of registers";
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// Which cases the default run assembles: every `sm_90a`-th and every `sm_80`-th; the long run all of them.
struct Steps {
  std::size_t sm_90a = 1, sm_80 = 1;
};

// Two assemblers at a time; an exception may not leave a thread.
std::vector<std::string> assemble_all(const std::vector<SweepCase>& cases, Steps steps) {
  if (env().long_tests) steps = {};
  std::vector<std::string> problems;
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size() * 2; i = next++) {
      if (i / 2 % (i % 2 == 0 ? steps.sm_90a : steps.sm_80) != 0) continue;
      const std::string target = i % 2 == 0 ? "sm_90a" : "sm_80";
      const std::string problem = problem_with(cases[i / 2], target);
      if (problem.empty()) continue;
      const std::lock_guard lock(mutex);
      problems.push_back(cases[i / 2].name + " for " + target + ": " + problem);
    }
  };
  std::thread other(work);
  work();
  other.join();
  std::sort(problems.begin(), problems.end());
  return problems;
}

bool can_assemble() {
  if (!find_ptxas().empty()) return true;
  std::puts("SKIP(ptxas): there is no ptxas in PATH, CUDA_HOME or /usr/local/cuda");
  return false;
}

void check_assembles(const std::vector<SweepCase>& cases, Steps steps) {
  REQUIRE(!cases.empty());
  if (!can_assemble()) return;
  for (const std::string& p : assemble_all(cases, steps)) FAIL_CHECK(p);
}

}  // namespace

TEST_CASE("PTX: kernels as users write them assemble") { check_assembles(gpu_kernels(), {}); }

TEST_CASE("PTX: every op row and element type assembles") { check_assembles(elementwise_sweep(), {1, 4}); }

TEST_CASE("PTX: every conversion assembles") { check_assembles(conversion_sweep(), {1, 4}); }

TEST_CASE("PTX: every reduction assembles") { check_assembles(reduction_sweep(), {2, 5}); }

TEST_CASE("PTX: scans, sorts and moves assemble") { check_assembles(lanes_sweep(), {7, 25}); }

TEST_CASE("PTX: an aligned flat f32 kernel moves 16 bytes an instruction") {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const std::string ptx = ptx_of("flat f32", target);
    CHECK_MESSAGE(has(ptx, "ld.global"), ptx);
    CHECK((has(ptx, "ld.global.v4") || has(ptx, "ld.global.nc.v4")));
    CHECK(has(ptx, "st.global.v4"));
  }
}

// Case 23 of the collected mistakes: x * y + x with and without fusion differ, and the IR alone decides.
TEST_CASE("PTX: a product and a sum are fused where the IR says so, and nowhere else") {
  const std::string apart = ptx_of("flat f32", "sm_90a", false);
  CHECK(has(apart, "mul.rn.f32"));
  CHECK(has(apart, "add.rn.f32"));
  CHECK_FALSE(has(apart, "fma."));
  // Without .rn ptxas may fuse them.
  CHECK_FALSE(has(apart, "mul.f32"));
  CHECK_FALSE(has(apart, "add.f32"));
  const std::string fused = ptx_of("flat f32", "sm_90a", true);
  CHECK(has(fused, "fma.rn.f32"));
  CHECK_FALSE(has(fused, "add.rn.f32"));
}

TEST_CASE("PTX: division in f32 is exact, and rows reduce by shuffles without local memory") {
  for (const char* name : {"softmax f32 1000", "softmax f16 100"}) {
    const std::string ptx = ptx_of(name, "sm_90a");
    // A quotient that is only rounded to f16 has a short form.
    CHECK(has(ptx, "div.rn.f32") == (std::string(name) == "softmax f32 1000"));
    CHECK(has(ptx, "shfl.sync.bfly.b32"));
    CHECK_FALSE(has(ptx, ".local"));
    if (!can_assemble()) continue;
    const std::string meta = codegen::assemble(ptx, "sm_90a", name, AssemblerChoice::ptxas).meta;
    CHECK_MESSAGE(has(meta, "spill_bytes=0"), meta);
  }
}

TEST_CASE("PTX: an assembler's complaint reaches the user with the kernel's name") {
  if (!can_assemble()) return;
  try {
    codegen::assemble(".version 8.0\n.target sm_80\n.address_size 64\nnonsense;\n", "sm_80", "my_kernel",
                      AssemblerChoice::ptxas);
    FAIL("nonsense was assembled");
  } catch (const CompileError& e) {
    CHECK(has(e.what(), "my_kernel"));
    CHECK(has(e.what(), "sm_80"));
    CHECK(has(e.what(), "Parsing error"));
  }
}

TEST_CASE("PTX: the driver is left the text itself") {
  const codegen::Assembled a = codegen::assemble(".version 8.0", "sm_90a", "k", AssemblerChoice::driver);
  CHECK(a.kind == Binary::Kind::ptx);
  CHECK(a.code.size() == 12);
}
