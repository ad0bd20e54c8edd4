// The GPU lowering down to PTX: widths of accesses, barriers and shuffles, and every structural op through ptxas.
// The unit tests of jit/codegen/gpu_*; values are compared under SIMT emulation, in tests/property.
#include <doctest/doctest.h>

#include <iostream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/assemble.h"
#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/gpu_layouts.h"
#include "tileweave/jit/compile.h"
#include "tileweave/jit/ir/function.h"

using namespace tileweave;

namespace {

// A view that is contiguous and aligned, with rank given by its innermost axis.
std::string view(const std::string& element, int rank) {
  const std::string unit = std::to_string(1 << (rank - 1)), aligned = std::to_string((1 << (rank - 1)) - 1);
  return "view<" + element + ", " + std::to_string(rank) + "> {unit_stride = " + unit +
         (rank > 1 ? ", aligned_stride = " + aligned : "") + ", aligned_base = 1, offsets_fit_32 = 1}";
}

ir::Function prepared(const std::string& text) {
  ir::Function f = ir::parse(text);
  jit::run_pipeline(f, {}, jit::Backend::gpu);
  return f;
}

std::string ptx_of(const std::string& text, const std::string& target = "sm_90a") {
  return codegen::compile_to_text(prepared(text), codegen::parse_target(target), codegen::Emit::assembly);
}

int count(const std::string& text, const std::string& pattern) {
  const std::regex r(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), r), std::sregex_iterator()));
}

// out[program * n .. + n] = in[same] under `op`.
std::string flat(const std::string& element, int n, const std::string& facts = "") {
  const std::string in = facts.empty() ? view("const " + element, 1) : "view<const " + element + ", 1> " + facts;
  const std::string out = facts.empty() ? view(element, 1) : "view<" + element + ", 1> " + facts;
  const std::string size = std::to_string(n), tile = element + "[" + size + "]";
  return "func \"flat\"(%0: " + in + ", %1: " + out +
         ") {\n%2 = program_id {axis = 0} : i64\n%3 = constant {value = " + size +
         "} : i64\n%4 = mul %2, %3 : i64\n%5 = load %0, %4 {extents = [" + size + "], pad = 0} : " + tile +
         "\n%6 = abs %5 : " + tile + "\nstore %1, %4, %6\n}\n";
}

// Row sums of a block of rows x columns, taken from every element and stored.
std::string centred(const std::string& element, int rows, int columns, int warps) {
  const std::string block = "[" + std::to_string(rows) + "," + std::to_string(columns) + "]",
                    list = "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  return "func \"rows\"(%0: " + view("const " + element, 2) + ", %1: " + view("f32", 2) +
         ") with {warps = " + std::to_string(warps) +
         "} {\n%2 = constant {value = 0} : i64\n%3 = load %0, %2, %2 {extents = " + list + ", pad = 0} : " + element +
         block + "\n%4 = convert %3 : f32" + block + "\n%5 = reduce %4 {axis = 1, combine = sum} : f32[" +
         std::to_string(rows) + "]\n%6 = expand_dims %5 {axis = 1} : f32[" + std::to_string(rows) +
         ",1]\n%7 = broadcast %6 {extents = " + list + "} : f32" + block + "\n%8 = sub %4, %7 : f32" + block +
         "\nstore %1, %2, %2, %8\n}\n";
}

struct Named {
  std::string name, text;
};

// One kernel for each structural op and way of moving data that the property tests' programs do not force.
std::vector<Named> kernels() {
  std::vector<Named> all{{"flat f32", flat("f32", 1024)},
                         {"flat f16", flat("f16", 1024)},
                         {"flat i8", flat("i8", 4096)},
                         {"flat f64", flat("f64", 96)},
                         {"flat strided", flat("f32", 256, "{offsets_fit_32 = 0}")},
                         {"rows in a warp", centred("f16", 1, 512, 1)},
                         {"rows across warps", centred("f16", 1, 4096, 4)},
                         {"many rows", centred("f32", 8, 192, 4)}};
  const std::string square = "func \"k\"(%0: " + view("const f32", 2) + ", %1: " + view("f32", 2) + ") {\n" +
                             "%2 = constant {value = 0} : i64\n%3 = load %0, %2, %2 {extents = [64, 64], pad = 0} : "
                             "f32[64,64]\n";
  all.push_back({"transpose", square + "%4 = trans %3 {perm = [1, 0]} : f32[64,64]\nstore %1, %2, %2, %4\n}\n"});
  all.push_back({"transpose of odd extents",
                 "func \"k\"(%0: " + view("const f32", 2) + ", %1: " + view("f32", 2) +
                     ") {\n%2 = constant {value = 0} : i64\n%3 = load %0, %2, %2 {extents = [24, 40], pad = 0} : "
                     "f32[24,40]\n%4 = trans %3 {perm = [1, 0]} : f32[40,24]\nstore %1, %2, %2, %4\n}\n"});
  all.push_back({"reshape", square + "%4 = reshape %3 {extents = [16, 256]} : f32[16,256]\nstore %1, %2, %2, %4\n}\n"});
  all.push_back({"reshape of odd extents",
                 "func \"k\"(%0: " + view("const f32", 2) + ", %1: " + view("f32", 2) +
                     ") {\n%2 = constant {value = 0} : i64\n%3 = load %0, %2, %2 {extents = [6, 20], pad = 0} : "
                     "f32[6,20]\n%4 = reshape %3 {extents = [12, 10]} : f32[12,10]\nstore %1, %2, %2, %4\n}\n"});
  all.push_back({"dot", square + "%4 = dot %3, %3, %3 : f32[64,64]\nstore %1, %2, %2, %4\n}\n"});
  all.push_back(
      {"dot tf32", square + "%4 = dot %3, %3, %3 {precision = tf32} : f32[64,64]\nstore %1, %2, %2, %4\n}\n"});
  all.push_back(
      {"argmax",
       "func \"k\"(%0: " + view("const f32", 2) + ", %1: " + view("i32", 1) +
           ") with {warps = 4} {\n%2 = constant {value = 0} : i64\n%3 = load %0, %2, %2 {extents = [4, 1000], "
           "pad = 0} : f32[4,1000]\n%4 = arg_reduce %3 {axis = 1, combine = max} : i32[4]\nstore %1, %2, "
           "%4\n}\n"});
  all.push_back({"loop with a carried tile",
                 "func \"k\"(%0: " + view("const f16", 2) + ", %1: " + view("f32", 1) +
                     ", %9: i64) {\n%2 = constant {value = 0} : i64\n%3 = constant {value = 1024} : i64\n%4 = constant "
                     "{value = 0.0} : f32[1024]\n%5 = for %2, %9, %3, %4 : f32[1024] do {\n(%6: i64, %7: "
                     "f32[1024])\n%8 = load %0, %2, %6 {extents = [1, 1024], pad = 0} : f16[1,1024]\n%10 = reshape %8 "
                     "{extents = [1024]} : f16[1024]\n%11 = convert %10 : f32[1024]\n%12 = add %7, %11 : "
                     "f32[1024]\nyield %12\n}\nstore %1, %2, %5\n}\n"});
  all.push_back(
      {"while", "func \"k\"(%0: " + view("i64", 1) +
                    ") {\n%1 = constant {value = 1} : i64\n%2 = constant {value = 100} : i64\n%3 = while %1 : i64 do "
                    "{\n(%4: i64)\n%5 = add %4, %4 : i64\n%6 = lt %5, %2 : bool\ncondition %6, %5\n} do {\n(%7: "
                    "i64)\n%8 = add %7, %1 : i64\nyield %8\n}\n%9 = broadcast %3 {extents = [4]} : i64[4]\n%10 = "
                    "constant {value = 0} : i64\nstore %0, %10, %9\n}\n"});
  all.push_back({"gather and scatter",
                 "func \"k\"(%0: " + view("const f32", 1) + ", %1: " + view("f32", 1) +
                     ") {\n%2 = view_base %0 : ptr<const f32>\n%3 = broadcast %2 {extents = [256]} : ptr<const "
                     "f32>[256]\n%4 = iota {start = 0} : i32[256]\n%5 = ptr_add %3, %4 : ptr<const f32>[256]\n%6 = "
                     "load_ptr %5 {pad = 0} : f32[256]\n%7 = view_base %1 : ptr<f32>\n%8 = broadcast %7 {extents = "
                     "[256]} : ptr<f32>[256]\n%9 = ptr_add %8, %4 : ptr<f32>[256]\nstore_ptr %9, %6\n}\n"});
  return all;
}

}  // namespace

TEST_CASE("a contiguous aligned block moves in accesses of 16 bytes, read-only where it may") {
  for (const std::string element : {"f32", "f16", "bf16", "i8", "i64"}) {
    CAPTURE(element);
    const std::string ptx = ptx_of(flat(element, 4096));
    CHECK(count(ptx, R"(ld\.global\.nc\.v[24])") > 0);
    CHECK(count(ptx, R"(st\.global\.v[24])") > 0);
    CHECK(count(ptx, R"(\.local)") == 0);
    CHECK(count(ptx, R"(\.extern \.func)") == 0);
  }
  // 4 KiB for 128 threads: two vectors a thread, in the version without predicates and in the one with them.
  const std::string ptx = ptx_of(flat("f32", 1024));
  CHECK(count(ptx, R"(\n\s*ld\.global\.nc\.v4)") == 2);
  CHECK(count(ptx, R"(@%p\d+ ld\.global\S*\.v4)") == 2);
  CHECK(count(ptx, R"(\.reqntid 128|\.maxntid 128)") == 1);
}

TEST_CASE("without facts every element moves by itself, and a written view is not read through the read-only path") {
  const std::string strided = ptx_of(flat("f32", 256, "{offsets_fit_32 = 0}"));
  CHECK(count(strided, R"(ld\.global\S*\.v4)") == 0);
  CHECK(count(strided, R"(st\.global\S*\.v4)") == 0);
  const std::string alias = ptx_of(flat("f32", 256, "{unit_stride = 1, aligned_base = 1, may_alias = 1}"));
  CHECK(count(alias, R"(ld\.global\.nc)") == 0);
}

TEST_CASE("a row in one warp is reduced by shuffles alone; across warps with one barrier") {
  const std::string warp = ptx_of(centred("f16", 1, 512, 1));
  CHECK(count(warp, R"(shfl\.sync\.bfly)") % 5 == 0);
  CHECK(count(warp, R"(shfl\.sync\.bfly)") > 0);
  CHECK(count(warp, R"(bar\.sync|barrier\.sync)") == 0);
  CHECK(count(warp, R"(ld\.shared)") == 0);
  const std::string block = ptx_of(centred("f16", 1, 4096, 4));
  const int versions = count(block, R"(shfl\.sync\.bfly)") / 5;
  CHECK(count(block, R"(bar\.sync|barrier\.sync)") == versions);
  CHECK(count(block, R"(ld\.shared)") == 4 * versions);
  // From eight warps on a lane reads what one warp has, and shuffles bring that together.
  for (const auto& [warps, shuffles] : {std::pair{8, 5 + 3}, {16, 5 + 4}, {32, 5 + 5}}) {
    CAPTURE(warps);
    const std::string wide = ptx_of(centred("f32", 1, 8192, warps));
    const int barriers = count(wide, R"(bar\.sync|barrier\.sync)");
    CHECK(barriers > 0);
    CHECK(count(wide, R"(ld\.shared)") == barriers);
    CHECK(count(wide, R"(shfl\.sync\.bfly)") == shuffles * barriers);
  }
  // Rows go to warps of their own where there are as many.
  CHECK(count(ptx_of(centred("f32", 4, 256, 4)), R"(bar\.sync|barrier\.sync)") == 0);
}

TEST_CASE("a product and a sum that are two ops stay two instructions") {
  const std::string text = "func \"k\"(%0: " + view("f32", 1) +
                           ", %1: f32) with {no_contract = 1} {\n%2 = constant {value = 0} : i64\n%3 = load %0, %2 "
                           "{extents = [32], pad = 0} : f32[32]\n%4 = mul %3, %3 : f32[32]\n%5 = add %4, %3 : "
                           "f32[32]\nstore %0, %2, %5\n}\n";
  const std::string ptx = ptx_of(text);
  CHECK(count(ptx, R"(fma\.)") == 0);
  CHECK(count(ptx, R"(mul\.rn\.f32|mul\.f32)") > 0);
  CHECK(count(ptx, R"(\.ftz)") == 0);
}

TEST_CASE("warps follow the bytes of the largest tile, and what is asked for") {
  CHECK(codegen::choose_warps(prepared(flat("f32", 1024))) == 4);
  CHECK(codegen::choose_warps(prepared(flat("f16", 1024))) == 4);
  CHECK(codegen::choose_warps(prepared(flat("f32", 32))) == 1);
  ir::Function row = prepared(centred("f16", 1, 4096, 2));
  CHECK(codegen::choose_warps(row) == 2);
  row.options.warps = 0;
  CHECK(codegen::choose_warps(row) == 8);  // 64 bytes a thread of the 16 KiB that are written
}

TEST_CASE("an element-wise chain has one layout, a reduction's result a slice of it") {
  const ir::Function f = prepared(centred("f16", 1, 4096, 4));
  const codegen::LayoutMap layouts(f, 4);
  const ir::Layout* tile = nullptr;
  for (const auto& op : f.body().ops) {
    if (op->results.empty() || op->results[0]->type.rank == 0) continue;
    const ir::Value* v = op->results[0];
    if (op->id == ir::OpId::reduce) {
      REQUIRE(tile != nullptr);
      CHECK(layouts.of(v) == tile->slice(1));
    } else if (v->type.elements() == 4096) {
      if (tile != nullptr) CHECK(layouts.of(v) == *tile);
      tile = &layouts.of(v);
    }
  }
  REQUIRE(tile != nullptr);
  // Eight neighbours of 2 bytes would be 16, but what is stored is f32: four.
  CHECK(tile->apply(3) == 3);
  CHECK(tile->apply(0, 1) == 4);
}

TEST_CASE("a transposed block is read and written in vectors, through shared memory without scattered accesses") {
  for (const Named& k : kernels()) {
    if (k.name != "transpose") continue;
    const std::string ptx = ptx_of(k.text);
    CHECK(count(ptx, R"(\n\s*ld\.global\.nc\.v4)") > 0);
    CHECK(count(ptx, R"(\n\s*st\.global\.v4)") > 0);
    CHECK(count(ptx, R"(bar\.sync|barrier\.sync)") > 0);
    return;
  }
  FAIL("there is no transpose");
}

TEST_CASE("with debug the PTX names the user's file and lines, without it neither") {
  ir::Function f = prepared(flat("f32", 1024));
  f.place = Place("user.cpp", 7);
  std::uint32_t line = 40;
  for (auto& op : f.body().ops) op->place = Place(op->id == ir::OpId::abs ? "other.cpp" : "user.cpp", ++line);
  const auto target = codegen::parse_target("sm_80");
  CHECK(count(codegen::compile_to_text(f, target, codegen::Emit::assembly), R"(\.loc|user\.cpp)") == 0);
  f.options.debug = 1;
  const std::string ptx = codegen::compile_to_text(f, target, codegen::Emit::assembly);
  CHECK(count(ptx, R"(\.file\s+\d+ "user\.cpp")") == 1);
  CHECK(count(ptx, R"(\.file\s+\d+ "other\.cpp")") == 1);
  CHECK(count(ptx, R"(\.loc\s+\d+ 4[1-9])") > 2);
  if (!find_ptxas().empty()) {
    CHECK(codegen::assemble(ptx, "sm_80", "lines", AssemblerChoice::ptxas).code.size() > 0);
  }
}

TEST_CASE("the same function gives the same text") {
  for (const Named& k : kernels()) {
    CAPTURE(k.name);
    CHECK(ptx_of(k.text) == ptx_of(k.text));
  }
}

TEST_CASE("ptxas takes every kernel, for the oldest and the newest target, without spills") {
  if (find_ptxas().empty()) {
    std::cout << "SKIP(ptxas): PTX of the GPU lowering is not assembled\n";
    return;
  }
  for (const Named& k : kernels()) {
    for (const std::string target : {"sm_80", "sm_90a"}) {
      CAPTURE(k.name);
      CAPTURE(target);
      const codegen::Assembled done = codegen::assemble(ptx_of(k.text, target), target, k.name, AssemblerChoice::ptxas);
      CHECK(done.kind == Binary::Kind::cubin);
      CHECK(done.code.size() > 0);
      CHECK(done.meta.find("spill_bytes=0") != std::string::npos);
    }
  }
}

TEST_CASE("a kernel that needs more shared memory than there is is refused with both numbers") {
  const std::string text =
      "func \"big\"(%0: " + view("const f32", 2) + ", %1: " + view("f32", 2) +
      ") {\n%2 = constant {value = 0} : i64\n%3 = load %0, %2, %2 {extents = [500, 500], pad = 0} : "
      "f32[500,500]\n%4 = reshape %3 {extents = [250, 1000]} : f32[250,1000]\nstore %1, %2, %2, "
      "%4\n}\n";
  try {
    ptx_of(text, "sm_86");
    FAIL("a megabyte of shared memory was accepted");
  } catch (const CompileError& e) {
    CHECK(std::string(e.what()).find("needs 1000000 bytes of shared memory, sm_86 has 101376") != std::string::npos);
  }
}
