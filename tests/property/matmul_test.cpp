// Products on tensor cores under SIMT emulation, against the interpreter; and which instructions they became.
// The bound is Interpreter's: products are exact, and a sum of n terms in f32 in any order is within
// 2 n eps * (sum of magnitudes) of the interpreter's.
#include <doctest/doctest.h>

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <map>

#include "tests/property/compare.h"
#include "tests/property/matmul_kernels.h"
#include "tests/property/simt_executor.h"
#include "tileweave/jit/base/env.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

// Calls of each primitive in the lowered module, by name.
using Calls = std::map<std::string, int>;
Calls calls_in(const llvm::Module& m) {
  Calls calls;
  for (const llvm::Function& f : m) {
    for (const llvm::Instruction& i : llvm::instructions(f)) {
      const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
      if (call != nullptr && call->getCalledFunction() != nullptr) ++calls[call->getCalledFunction()->getName().str()];
    }
  }
  return calls;
}

void check_case(const SweepCase& c, const SimtOptions& options) {
  const auto difference = compare_with_interpreter(c.program, prepare_for_backend, simt_executor(options), true);
  CHECK_MESSAGE(!difference, c.name << " on " << options.target << ": " << difference.value_or(""));
}

Calls calls_of(const SweepCase& c, const std::string& target = "simt:sm_90a") {
  Calls calls;
  SimtOptions options{.target = target};
  options.observe = [&](const llvm::Module& m) { calls = calls_in(m); };
  check_case(c, options);
  return calls;
}

}  // namespace

TEST_CASE("products of every element type, order and edge agree with the interpreter") {
  for (const SweepCase& c : matmul_kernels()) {
    CAPTURE(c.name);
    for (const std::uint64_t seed : {0u, 1u}) check_case(c, {.seed = seed});
  }
}

TEST_CASE("random products on every kind of device") {
  const std::uint64_t count = env().long_tests ? 400 : 60;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const char* target = seed % 3 == 0 ? "simt:sm_80" : seed % 3 == 1 ? "simt:sm_89" : "simt:sm_90a";
    check_case(random_matmul(seed), {.target = target, .seed = seed});
  }
}

TEST_CASE("products on sm_80, which has no fp8") {
  for (const Dtype t : {Dtype::f16, Dtype::f8e4m3, Dtype::i8}) {
    const SweepCase c =
        matmul(t, {.m = 40, .n = 48, .k = 72, .block_m = 32, .block_n = 32, .block_k = 32, .b_columns = true});
    const Calls calls = calls_of(c, "simt:sm_80");
    CHECK(calls.contains("tw.mma_f16") == (t == Dtype::f16));
    CHECK(calls.contains("tw.mma_s8") == (t == Dtype::i8));
    CHECK_FALSE(calls.contains("tw.mma_fp8.e4m3_e4m3"));
  }
}

TEST_CASE("each element type has its instruction, and exact f32 none") {
  const MatmulShape s{.m = 32, .n = 32, .k = 32, .block_m = 32, .block_n = 32, .block_k = 32};
  const auto uses = [&](Dtype t, const char* name, MatmulShape shape) {
    return calls_of(matmul(t, shape)).contains(name);
  };
  CHECK(uses(Dtype::f16, "tw.mma_f16", s));
  CHECK(uses(Dtype::bf16, "tw.mma_bf16", s));
  CHECK(uses(Dtype::i8, "tw.mma_s8", s));
  CHECK(uses(Dtype::u8, "tw.mma_u8", s));
  CHECK(uses(Dtype::f64, "tw.mma_f64", s));
  CHECK(uses(Dtype::f8e4m3, "tw.mma_fp8.e4m3_e4m3", s));
  CHECK(uses(Dtype::f8e5m2, "tw.mma_fp8.e5m2_e5m2", s));
  CHECK_FALSE(uses(Dtype::f32, "tw.mma_tf32", s));
  MatmulShape rounded = s;
  rounded.tf32 = true;
  CHECK(uses(Dtype::f32, "tw.mma_tf32", rounded));
}

TEST_CASE("operands come by ldmatrix: plain where k is contiguous, transposed where it is not") {
  MatmulShape s{.m = 32, .n = 32, .k = 32, .block_m = 32, .block_n = 32, .block_k = 32};
  Calls calls = calls_of(matmul(Dtype::f16, s));
  CHECK(calls.contains("tw.ldmatrix.v4i32"));
  CHECK(calls.contains("tw.ldmatrix_trans.v4i32"));
  s.b_columns = true;
  calls = calls_of(matmul(Dtype::f16, s));
  CHECK(calls.contains("tw.ldmatrix.v4i32"));
  CHECK_FALSE(calls.contains("tw.ldmatrix_trans.v4i32"));
  s.a_columns = true, s.b_columns = false;
  calls = calls_of(matmul(Dtype::f16, s));
  CHECK_FALSE(calls.contains("tw.ldmatrix.v4i32"));
  CHECK(calls.contains("tw.ldmatrix_trans.v4i32"));
}

TEST_CASE("loops stream what they load from views, and nothing where one stage is asked for") {
  MatmulShape s{.m = 40, .n = 40, .k = 96, .block_m = 32, .block_n = 32, .block_k = 32, .stages = 3};
  CHECK(calls_of(matmul(Dtype::f16, s)).contains("tw.async_copy.v4i32"));
  s.stages = 1;
  CHECK_FALSE(calls_of(matmul(Dtype::f16, s)).contains("tw.async_copy.v4i32"));
  CHECK(calls_of(attention(Dtype::f16, 64, 64, 32, 2), "simt:sm_90").contains("tw.async_copy.v4i32"));
  // One operand gathered, the other streamed.
  CHECK(calls_of(gathered_product(50, 32, 48)).contains("tw.async_copy.v4i32"));
}

TEST_CASE("on sm_90a one warp more loads by TMA for warp groups, where the view's facts allow a tensor map") {
  const MatmulShape s{.m = 100, .n = 72, .k = 200, .block_m = 64, .block_n = 64, .block_k = 32, .warps = 4};
  Calls calls = calls_of(matmul(Dtype::f16, s));
  CHECK(calls.contains("tw.tma_load"));
  CHECK(calls.contains("tw.mbarrier_arrive_expect"));
  CHECK_FALSE(calls.contains("tw.async_copy.v4i32"));
  CHECK_FALSE(calls_of(matmul(Dtype::f16, s), "simt:sm_90").contains("tw.tma_load"));
  CHECK(calls_of(attention(Dtype::f16, 64, 64, 64, 2)).contains("tw.tma_load"));
  // Rows that are no multiples of 16 bytes apart have no tensor map.
  MatmulShape odd = s;
  odd.pitch = 1;
  calls = calls_of(matmul(Dtype::f16, odd));
  CHECK_FALSE(calls.contains("tw.tma_load"));
  CHECK(calls.contains("tw.wgmma_ss.f16.n32"));
}

TEST_CASE("blocks with a ring do one program after another where the results have room beside it") {
  const auto is_persistent = [](const MatmulShape& s) {
    const Calls calls = calls_of(matmul(Dtype::f16, s));
    return calls.contains("tw.tma_load") && calls.contains("tw.block_count");
  };
  MatmulShape s{.m = 200, .n = 136, .k = 136, .block_m = 64, .block_n = 64, .block_k = 32, .warps = 4};
  CHECK(is_persistent(s));  // 12 programs by 2 blocks of the emulation, the ring going on in mid-turn
  s.stages = 3;
  CHECK(is_persistent(s));
  s = {.m = 200, .n = 300, .k = 72, .block_m = 128, .block_n = 256, .block_k = 64, .warps = 8, .stages = 4};
  CHECK_FALSE(is_persistent(s));
}

TEST_CASE("whole warp groups multiply by wgmma on sm_90a, from shared memory or with A in registers") {
  const MatmulShape s{.m = 64, .n = 64, .k = 64, .block_m = 64, .block_n = 64, .block_k = 32, .warps = 4};
  Calls calls = calls_of(matmul(Dtype::f16, s));
  CHECK(calls.contains("tw.wgmma_ss.f16.n32"));
  CHECK_FALSE(calls.contains("tw.mma_f16"));
  calls = calls_of(matmul(Dtype::f16, s), "simt:sm_90");
  CHECK(calls.contains("tw.mma_f16"));
  calls = calls_of(attention(Dtype::f16, 64, 64, 64, 2));
  CHECK(calls.contains("tw.wgmma_ss.f16.n16"));  // queries stay in shared memory: 32 keys
  CHECK(calls.contains("tw.wgmma_rs.f16.n32"));  // probabilities come in registers: 64 columns of values
  // Bytes that are neighbours along n have no descriptor.
  calls = calls_of(matmul(Dtype::i8, s));
  CHECK(calls.contains("tw.mma_s8"));
  MatmulShape by_k = s;
  by_k.b_columns = true;
  CHECK(calls_of(matmul(Dtype::i8, by_k)).contains("tw.wgmma_ss.s8.n32"));
}
