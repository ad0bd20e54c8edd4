// Atomics of every operation, element type, order and scope, and kernels that print and assert, assembled for sm_80 and
// sm_90a. Their values are compared in tests/run, on the host's devices and under SIMT emulation.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/property/simt_executor.h"
#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/channel.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/assemble.h"
#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/ir/builder.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

bool has_ptxas() { return !find_ptxas().empty(); }

// One kernel with every atomic that `t` takes, over `lanes` lanes.
Function atomics(Dtype t, std::int64_t lanes, const std::string& order, const std::string& scope) {
  Function f("atomics");
  Value* view = f.add_param(Type::view(t, 1, false), "x");
  Builder b(f);
  Value* pointer = b.view_base(view);
  Value* value = b.constant(Type::scalar(t), std::int64_t{3});
  if (lanes > 1) {
    const std::int64_t extents[] = {lanes};
    pointer = b.ptr_add(b.broadcast(pointer, extents), b.iota(lanes, Dtype::i64, 0));
    value = b.broadcast(value, extents);
  }
  std::vector<std::string> ops = {"sum", "min", "max", "xchg"};
  if (is_int(t)) ops.insert(ops.end(), {"and", "or", "xor"});
  const auto use = [&](Value* old) {
    const std::vector<Value*> at = {b.index(0)};
    const std::int64_t block[] = {lanes};
    b.store(view, at, lanes > 1 ? old : b.reshape(old, block), nullptr);
  };
  for (const std::string& op : ops) {
    Attrs attrs{{AttrKey::combine, op}, {AttrKey::order, order}, {AttrKey::scope, scope}};
    use(b.insert(OpId::atomic_rmw, {pointer, value}, std::move(attrs), {}, {})->result());
  }
  Attrs attrs{{AttrKey::order, order}, {AttrKey::scope, scope}};
  use(b.insert(OpId::atomic_cas, {pointer, value, value}, std::move(attrs), {}, {})->result());
  return f;
}

Function talking() {
  Function f("talking");
  Value* view = f.add_param(Type::view(Dtype::f16, 2, true), "x");
  Builder b(f);
  const std::vector<Value*> at = {b.program_id(0), b.index(0)};
  const std::int64_t block[] = {4, 24};
  Value* x = b.load(view, at, block, nullptr, 0, {"user.cpp", 7});
  Attrs print{{AttrKey::text, std::string("a label: with \"signs\"")}, {AttrKey::place, std::string("user.cpp:8")}};
  b.insert(OpId::print, {x}, std::move(print), {}, {"user.cpp", 8});
  Value* small = b.elementwise(OpId::lt, {x, b.constant(x->type, 9.0)});
  Value* all = b.reduce(b.reduce(small, 1, Combine::bit_and, nullptr), 0, Combine::bit_and, nullptr);
  Attrs check{{AttrKey::text, std::string("small")}, {AttrKey::place, std::string("user.cpp:9")}};
  b.insert(OpId::assert_, {all}, std::move(check), {}, {"user.cpp", 9});
  return f;
}

// One function in CUDA C++ and one in PTX, on a tile.
Function external() {
  Function f("external");
  Value* view = f.add_param(Type::view(Dtype::f32, 1, false), "x");
  Builder b(f);
  const std::vector<Value*> at = {b.index(0)};
  const std::int64_t block[] = {100};
  Value* x = b.load(view, at, block, nullptr, 0);
  Attrs cuda{{AttrKey::name, std::string("tileweave_twin_half_0123456789abcdef")},
             {AttrKey::text, std::string("__device__ float half(float a) { return __fmul_rn(a, 0.5f); }")}};
  x = b.insert(OpId::external, {x}, std::move(cuda), {x->type}, {"user.cpp", 3})->result();
  Attrs ptx{{AttrKey::name, std::string("tileweave_twin_inline_ptx_0123456789abcdef")},
            {AttrKey::text, std::string("ex2.approx.f32 $0, $1;")},
            {AttrKey::constraints, std::string("=f,f")}};
  x = b.insert(OpId::external, {x}, std::move(ptx), {x->type}, {"user.cpp", 4})->result();
  b.store(view, at, x, nullptr);
  return f;
}

std::string problem_with(const Function& recorded, const std::string& target) {
  try {
    Function f = recorded.clone();
    property::prepare_for_backend(f);
    const std::string ptx = codegen::compile_to_text(f, codegen::parse_target(target), codegen::Emit::assembly);
    const codegen::Assembled done = codegen::assemble(ptx, target, f.name, AssemblerChoice::ptxas);
    return done.code.empty() ? "ptxas gave no code" : "";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("atomics assemble for every type, operation, order and scope") {
  if (!has_ptxas()) {
    std::puts("SKIP(ptxas): the PTX of atomics was not assembled");
    return;
  }
  const std::vector<Dtype> types = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8e4m3,
                                    Dtype::i8,  Dtype::i16, Dtype::i32, Dtype::i64,  Dtype::u8,
                                    Dtype::u16, Dtype::u32, Dtype::u64};
  for (const char* target : {"sm_80", "sm_90a"}) {
    for (const Dtype t : types) {
      CAPTURE(dtype_name(t));
      CHECK(problem_with(atomics(t, 96, "relaxed", "device"), target) == "");
      CHECK(problem_with(atomics(t, 1, "acq_rel", "system"), target) == "");
    }
    CHECK(problem_with(atomics(Dtype::i32, 64, "acquire", "block"), target) == "");
    CHECK(problem_with(atomics(Dtype::f32, 64, "release", "system"), target) == "");
  }
}

TEST_CASE("prints and assertions assemble, and the binary says what its records mean") {
  Function f = talking();
  property::prepare_for_backend(f);
  const Binary b = codegen::compile_to_binary(f, codegen::parse_target("simt:sm_90a"));
  const std::vector<ChannelText> texts = channel_texts("registers=3 " + b.meta + " pdl=0");
  REQUIRE(texts.size() == 2);
  CHECK(texts[0].kind == ChannelText::Kind::print);
  CHECK(texts[0].type == Dtype::f16);
  CHECK(texts[0].elements == 96);
  CHECK(texts[0].place == "user.cpp:8");
  CHECK(texts[0].text == "a label: with \"signs\"");
  CHECK(texts[1].kind == ChannelText::Kind::failure);
  CHECK(texts[1].text == "small");
  if (!has_ptxas()) {
    std::puts("SKIP(ptxas): the PTX of prints and assertions was not assembled");
    return;
  }
  for (const char* target : {"sm_80", "sm_90a"}) CHECK(problem_with(talking(), target) == "");
}

TEST_CASE("device functions in CUDA C++ and PTX assemble; without NVRTC the error says what to install") {
  if (!has_ptxas()) {
    std::puts("SKIP(ptxas): the PTX of device functions was not assembled");
    return;
  }
  for (const char* target : {"sm_80", "sm_90a"}) {
    const std::string problem = problem_with(external(), target);
    if (problem.find("there is no libnvrtc") != std::string::npos) {
      CHECK(problem.find("user.cpp:3: error: 'half' is CUDA C++") == 0);
      CHECK(problem.find("help: install the CUDA toolkit's NVRTC") != std::string::npos);
      std::puts("SKIP(nvrtc): CUDA C++ functions were not compiled");
      continue;
    }
    CHECK(problem == "");
  }
}
