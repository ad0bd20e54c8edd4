// Products as PTX: the instructions that are meant to be there, and ptxas for each kind of GPU without spilled
// registers. Values are compared under SIMT emulation, in matmul_test.cpp.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/property/matmul_kernels.h"
#include "tests/property/simt_executor.h"
#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/assemble.h"
#include "tileweave/jit/codegen/codegen.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

std::string ptx_of(const SweepCase& c, const std::string& target) {
  ir::Function f = c.program.function.clone();
  prepare_for_backend(f);
  return codegen::compile_to_text(f, codegen::parse_target(target), codegen::Emit::assembly);
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void check_without_spills(const std::string& ptx, const std::string& target, const std::string& name) {
  CHECK_FALSE_MESSAGE(has(ptx, ".local"), name);
  if (find_ptxas().empty()) {
    std::puts("SKIP(ptxas): there is no ptxas in PATH, CUDA_HOME or /usr/local/cuda");
    return;
  }
  const std::string meta = codegen::assemble(ptx, target, name, AssemblerChoice::ptxas).meta;
  CHECK_MESSAGE(has(meta, "spill_bytes=0"), name << " for " << target << ": " << meta);
}

struct Expected {
  Dtype t;
  bool tf32;
  const char* instruction;
  const char* of_warp_group;  // on sm_90a; "": the same
};

}  // namespace

TEST_CASE("PTX: products of every element type use their instruction and spill nothing") {
  const std::vector<Expected> all{
      {Dtype::f16, false, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
       "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"},
      {Dtype::bf16, false, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
       "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"},
      {Dtype::f32, true, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ""},
      {Dtype::i8, false, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
       "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8"},
      {Dtype::u8, false, "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", ""},
      {Dtype::f64, false, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", ""},
      {Dtype::f8e4m3, false, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
       "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"},
  };
  for (const char* target : {"sm_80", "sm_89", "sm_90a"}) {
    for (const Expected& e : all) {
      if (e.t == Dtype::f8e4m3 && std::string(target) == "sm_80") continue;
      MatmulShape s{.m = 256,
                    .n = 256,
                    .k = 256,
                    .block_m = 64,
                    .block_n = 64,
                    .block_k = 32,
                    .b_columns = true,
                    .trans_b = true};
      s.tf32 = e.tf32;
      const SweepCase c = matmul(e.t, s);
      const std::string ptx = ptx_of(c, target);
      const bool groups = std::string(target) == "sm_90a" && e.of_warp_group[0] != '\0';
      CHECK_MESSAGE(has(ptx, groups ? e.of_warp_group : e.instruction), c.name << " for " << target);
      CHECK(has(ptx, groups ? "cp.async.bulk.tensor.2d.shared::cluster.global" : "cp.async.cg.shared.global"));
      if (e.t != Dtype::f64 && !groups) CHECK(has(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
      check_without_spills(ptx, target, c.name);
    }
  }
}

TEST_CASE("PTX: a large tile streams through as many stages as there is room for, by vectors alone") {
  MatmulShape s{
      .m = 1024, .n = 1024, .k = 1024, .block_m = 128, .block_n = 128, .block_k = 64, .trans_b = true, .warps = 8};
  for (const char* target : {"sm_80", "sm_90"}) {
    for (const bool trans : {true, false}) {
      s.trans_b = s.b_columns = trans;
      const SweepCase c = matmul(Dtype::f16, s);
      const std::string ptx = ptx_of(c, target);
      // 32 x 64 of a warp, four steps of k: 2 * 8 * 4 products; A by 2 * 4 ldmatrix, B by 4 * 4.
      CHECK(count(ptx, "mma.sync") == 64);
      CHECK(count(ptx, "ldmatrix") == 24);
      CHECK(has(ptx, "ldmatrix.sync.aligned.m8n8.x4.trans") == !trans);
      // Four stages of 32 KiB where three quarters of the shared memory hold them, else three.
      CHECK(has(ptx, std::string(target) == "sm_80" ? "cp.async.wait_group 1;" : "cp.async.wait_group 2;"));
      CHECK(count(ptx, "ld.global") == 0);
      check_without_spills(ptx, target, c.name);
    }
  }
}

TEST_CASE("PTX: a large tile on sm_90a is four wgmma a stage and group, none of them serialised") {
  for (const int block_n : {128, 256}) {
    for (const bool by_k : {true, false}) {
      const MatmulShape s{.m = 1024,
                          .n = 1024,
                          .k = 1024,
                          .block_m = 128,
                          .block_n = block_n,
                          .block_k = 64,
                          .b_columns = by_k,
                          .warps = 8};
      const SweepCase c = matmul(Dtype::bf16, s);
      const std::string ptx = ptx_of(c, "sm_90a");
      // Two groups along m where the tile is square; along m as well where it is wide, by the first split.
      CHECK(count(ptx, "wgmma.mma_async") == 4);
      CHECK(count(ptx, "wgmma.commit_group") == 1);
      CHECK_FALSE(has(ptx, "ldmatrix"));
      CHECK_FALSE(has(ptx, "mma.sync"));
      // One warp more loads: two boxes of A's 128 rows by 64 are one, B's rows of 256 columns are four panels.
      CHECK(count(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global") == (by_k ? 2 : 1 + block_n / 64));
      CHECK(count(ptx, "mbarrier.arrive.expect_tx") == 1);
      CHECK(count(ptx, "mbarrier.try_wait.parity") == 2);
      CHECK(has(ptx, ".param .align 64 .b8"));
      CHECK(has(ptx, ".reqntid 384, 1, 1"));
      CHECK(count(ptx, "setmaxnreg.dec.sync.aligned.u32 40;") == 1);
      CHECK(count(ptx, "setmaxnreg.inc.sync.aligned.u32 232;") == 1);
      CHECK(count(ptx, "bar.sync 0;") == 1);  // where the ring is made; none in the loop
      // One stage's products are under way while the next is asked for; the last are waited for behind the loop.
      CHECK(count(ptx, "wgmma.wait_group.sync.aligned 1;") == 1);
      CHECK(count(ptx, "wgmma.wait_group.sync.aligned 0;") == 1);
      check_without_spills(ptx, "sm_90a", c.name);  // C75xx of ptxas is an error of the assembler
    }
  }
}

TEST_CASE("PTX: chained products keep the first one's result in registers") {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const SweepCase c = attention(Dtype::f16, 256, 512, 64, 2);
    const std::string ptx = ptx_of(c, target);
    CHECK(has(ptx, std::string(target) == "sm_80" ? "mma.sync.aligned.m16n8k16" : "wgmma.mma_async"));
    CHECK(has(ptx, std::string(target) == "sm_80" ? "cp.async.cg.shared.global" : "cp.async.bulk.tensor.2d"));
    check_without_spills(ptx, target, c.name);
  }
}

TEST_CASE("too large a tile is an error that says what to lower") {
  const auto message = [](const MatmulShape& s) -> std::string {
    try {
      ptx_of(matmul(Dtype::f16, s), "sm_80");
    } catch (const CompileError& e) {
      return e.what();
    }
    return "";
  };
  MatmulShape s{.m = 256, .n = 256, .k = 256, .block_m = 256, .block_n = 256, .block_k = 32, .warps = 4};
  std::string text = message(s);
  CHECK_MESSAGE(has(text, "needs 2048 bytes of registers a thread, 832 are there"), text);
  CHECK(has(text, "help: lower the block's m or n, or raise Options::warps"));
  s = {.m = 256, .n = 256, .k = 256, .block_m = 128, .block_n = 128, .block_k = 64, .stages = 8};
  text = message(s);
  CHECK_MESSAGE(has(text, "needs 262144 bytes of shared memory, sm_80 has 166912"), text);
  CHECK(has(text, "help: lower the block's k or Options::stages"));
}
