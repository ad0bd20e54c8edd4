// The builder: folding, reuse, broadcasting of scalars, and the errors a user's kernel meets, in full.
// Stands beside jit/ir/builder.cpp, infer*.cpp and verify.cpp.
#include <doctest/doctest.h>

#include <string>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/limits.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

const Place here("user.cpp", 41);

struct Kernel {
  Function f{"k"};
  Value* x = f.add_param(Type::view(Dtype::f32, 2, true), "x");
  Value* y = f.add_param(Type::view(Dtype::i32, 1, false), "y");
  Value* s = f.add_param(Type::scalar(Dtype::f32), "s");
  Builder b{f};
  Value* zero = b.index(0);

  Value* tile(Dtype t, std::initializer_list<std::int64_t> e) { return b.constant(Type::tile(t, e), 1.0); }
};

template <class Make>
std::string error_of(Make make) {
  Kernel k;
  try {
    make(k);
  } catch (const RecordError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("constants fold with the op's own meaning, equal pure ops are one") {
  Kernel k;
  Value* a = k.b.constant(Type::scalar(Dtype::i32), std::int64_t{-7});
  Value* d = k.b.constant(Type::scalar(Dtype::i32), std::int64_t{2});
  CHECK(constant_of(k.b.elementwise(OpId::div, {a, d})) == 0xfffffffd);
  CHECK(constant_of(k.b.convert(k.b.constant(Type::scalar(Dtype::f32), 2.75), Dtype::u8)) == 2);
  CHECK(k.b.program_id(0) == k.b.program_id(0));
  CHECK(k.b.program_id(0) != k.b.program_id(1));
  Value* e = k.b.elementwise(OpId::exp, {k.s});
  CHECK(k.b.elementwise(OpId::exp, {k.s}) == e);
  k.b.begin_if(k.b.elementwise(OpId::lt, {k.s, e}));
  CHECK(k.b.elementwise(OpId::exp, {k.s}) == e);  // seen from inside
  Value* inner = k.b.elementwise(OpId::log, {k.s});
  k.b.end_if();
  CHECK(k.b.elementwise(OpId::log, {k.s}) != inner);  // not from outside
  verify(k.f, Stage::recorded);
}

TEST_CASE("scalars are broadcast to the tile they meet") {
  Kernel k;
  Value* const offsets[] = {k.zero, k.zero};
  Value* t = k.b.load(k.x, offsets, Extents{4, 8}, nullptr, 0);
  CHECK(k.b.elementwise(OpId::mul, {k.s, t})->type == t->type);
  CHECK(k.b.elementwise(OpId::where, {k.b.elementwise(OpId::lt, {k.s, k.s}), t, k.s})->type == t->type);
  CHECK(k.b.elementwise(OpId::lt, {t, k.s})->type == t->type.with_elem(Dtype::boolean));
}

TEST_CASE("loads and reads of a var are never merged") {
  Kernel k;
  Value* const offsets[] = {k.zero, k.zero};
  CHECK(k.b.load(k.x, offsets, Extents{1, 8}, nullptr, 0) != k.b.load(k.x, offsets, Extents{1, 8}, nullptr, 0));
  Value* v = k.b.var(k.s);
  CHECK(k.b.var_get(v) != k.b.var_get(v));
}

TEST_CASE("what a user does wrong is said in full, at the user's place") {
  CHECK(error_of([](Kernel& k) {
          k.b.elementwise(OpId::add, {k.tile(Dtype::f32, {64}), k.tile(Dtype::f32, {32})}, here);
        }) ==
        "user.cpp:41: error: add: extents differ: lhs f32[64], rhs f32[32]\n"
        "  help: give both the same extents, or broadcast one with tw::broadcast");
  CHECK(error_of([](Kernel& k) {
          k.b.elementwise(OpId::add, {k.tile(Dtype::f32, {64}), k.tile(Dtype::f32, {1, 64})}, here);
        }) ==
        "user.cpp:41: error: add: ranks differ: lhs f32[64], rhs f32[1,64]\n"
        "  help: add an axis with tw::expand, or broadcast with tw::broadcast");
  CHECK(error_of(
            [](Kernel& k) { k.b.elementwise(OpId::mul, {k.tile(Dtype::f32, {4}), k.tile(Dtype::f16, {4})}, here); }) ==
        "user.cpp:41: error: mul: element types differ: lhs f32[4], rhs f16[4]\n"
        "  help: convert one of them with .to<T>()");
  CHECK(error_of([](Kernel& k) { k.b.elementwise(OpId::exp, {k.tile(Dtype::i32, {4})}, here); }) ==
        "user.cpp:41: error: exp: takes floating-point tiles, got i32[4]\n"
        "  help: convert it with .to<float>()");
  CHECK(error_of([](Kernel& k) {
          k.b.elementwise(OpId::add, {k.tile(Dtype::boolean, {4}), k.tile(Dtype::boolean, {4})}, here);
        }) ==
        "user.cpp:41: error: add: takes numbers, got bool[4]\n"
        "  help: convert it with .to<int>() or .to<float>()");
  CHECK(error_of([](Kernel& k) {
          k.b.elementwise(OpId::bit_and, {k.tile(Dtype::f32, {4}), k.tile(Dtype::f32, {4})}, here);
        }) ==
        "user.cpp:41: error: bit_and: takes integers or bools, got f32[4]\n"
        "  help: convert it with .to<int>(), or use its bits with .bitcast<int>()");
  CHECK(error_of([](Kernel& k) {
          k.b.dot(k.tile(Dtype::f16, {128, 64}), k.tile(Dtype::f16, {32, 128}), k.tile(Dtype::f32, {128, 128}), "",
                  here);
        }) ==
        "user.cpp:41: error: dot: inner extents differ: lhs f16[128,64] has 64, rhs f16[32,128] has 32\n"
        "  help: load rhs as {k, n}, or pass tw::trans(rhs)");
  CHECK(error_of([](Kernel& k) {
          k.b.dot(k.tile(Dtype::i16, {4, 4}), k.tile(Dtype::i16, {4, 4}), k.tile(Dtype::i32, {4, 4}), "", here);
        }) ==
        "user.cpp:41: error: dot: there is no dot of i16 tiles: lhs i16[4,4], rhs i16[4,4]\n"
        "  help: dot takes f64, f32, f16, bf16, f8e4m3, f8e5m2, i8 and u8");
  CHECK(error_of([](Kernel& k) { k.b.reduce(k.tile(Dtype::f32, {4, 4}), 2, Combine::sum, nullptr, here); }) ==
        "user.cpp:41: error: reduce: there is no axis 2 of f32[4,4], which has 2 axes");
  CHECK(error_of([](Kernel& k) { k.b.reduce(k.tile(Dtype::boolean, {4}), 0, Combine::sum, nullptr, here); }) ==
        "user.cpp:41: error: reduce: sum takes numbers, got bool[4]\n"
        "  help: convert it with .to<int>(), or use tw::any or tw::all");
  CHECK(error_of([](Kernel& k) {
          Value* const at[] = {k.zero};
          k.b.store(k.y, at, k.tile(Dtype::f32, {4}), nullptr, here);
        }) ==
        "user.cpp:41: error: store: element types differ: value f32[4], destination view<i32, 1>\n"
        "  help: convert the value with .to<T>()");
  CHECK(error_of([](Kernel& k) {
          Value* const at[] = {k.zero, k.zero};
          k.b.store(k.x, at, k.tile(Dtype::f32, {1, 4}), nullptr, here);
        }) ==
        "user.cpp:41: error: store: cannot write through the read-only view<const f32, 2>\n"
        "  help: drop const from the parameter");
  CHECK(error_of([](Kernel& k) {
          Value* const at[] = {k.zero, k.zero};
          k.b.load(k.x, at, Extents{4}, nullptr, 0, here);
        }) == "user.cpp:41: error: load: the block has 1 axis, view<const f32, 2> has 2");
  CHECK(error_of([](Kernel& k) {
          Value* const at[] = {k.zero};
          k.b.load(k.y, at, Extents{4}, k.tile(Dtype::boolean, {8}), 0, here);
        }) ==
        "user.cpp:41: error: load: the mask is bool[8], it must be bool[4] like the tile it masks\n"
        "  help: give the mask the extents of the tile");
  CHECK(error_of([](Kernel& k) {
          Value* const at[] = {k.zero, k.zero};
          k.b.load(k.x, at, Extents{2048, 1024}, nullptr, 0, here);
        }) ==
        "user.cpp:41: error: load: the tile f32[2048,1024] has 2097152 elements, over the limit of 1048576\n"
        "  help: use a smaller block and loop over it with tw::range");
  CHECK(error_of([](Kernel& k) {
          Value* const at[] = {k.zero};
          k.b.load(k.y, at, Extents{0}, nullptr, 0, here);
        }) == "user.cpp:41: error: load: extents {0}: each must be at least 1");
  CHECK(error_of([](Kernel& k) { k.b.begin_if(k.tile(Dtype::boolean, {4}), here); }) ==
        "user.cpp:41: error: if: the condition is bool[4], it must be a scalar bool\n"
        "  help: reduce a tile with tw::any or tw::all, or select per lane with tw::where");
  CHECK(error_of([](Kernel& k) { k.b.var_set(k.b.var(k.s), k.tile(Dtype::f32, {4}), here); }) ==
        "user.cpp:41: error: var_set: the variable is f32, the value f32[4]\n"
        "  help: a tw::Var keeps the element type and extents of its initial value");
  CHECK(error_of([](Kernel& k) { k.b.reshape(k.tile(Dtype::f32, {4, 4}), Extents{5}, here); }) ==
        "user.cpp:41: error: reshape: f32[4,4] has 16 elements, f32[5] has 5");
  CHECK(error_of([](Kernel& k) { k.b.broadcast(k.tile(Dtype::f32, {3}), Extents{4}, here); }) ==
        "user.cpp:41: error: broadcast: cannot broadcast f32[3] to {4}\n"
        "  help: an axis must have extent 1 or the wanted one; add axes with tw::expand");
  CHECK(error_of([](Kernel& k) { k.b.trans(k.tile(Dtype::f32, {3, 4}), std::vector<int>{0, 0}, here); }) ==
        "user.cpp:41: error: trans: {0, 0} is no permutation of the axes of f32[3,4]");
  CHECK(error_of([](Kernel& k) { k.b.bitcast(k.tile(Dtype::f32, {4}), Dtype::i16, here); }) ==
        "user.cpp:41: error: bitcast: cannot read the bits of f32[4] as i16\n"
        "  help: both must have the same width");
  CHECK(error_of([](Kernel& k) { k.b.program_id(3, here); }) ==
        "user.cpp:41: error: program_id: there is no axis 3, a grid has the axes 0, 1 and 2");
  CHECK(error_of([](Kernel& k) {
          Builder::broadcast_shape(k.tile(Dtype::f32, {3, 4})->type, k.tile(Dtype::f32, {3})->type, "add", here);
        }) ==
        "user.cpp:41: error: add: extents differ: lhs f32[3,4], rhs f32[3]\n"
        "  help: an axis must have the same extent in both, or extent 1 in one");
}

TEST_CASE("a kernel unrolled too far is refused with the place it went over") {
  Kernel k;
  Value* v = k.s;
  for (std::size_t i = 0; i <= max_block_ops; ++i) v = k.b.elementwise(OpId::sqrt, {v}, Place("user.cpp", 7));
  try {
    verify(k.f, Stage::recorded);
    FAIL("not refused");
  } catch (const RecordError& e) {
    CHECK(std::string(e.what()) ==
          "user.cpp:7: error: a block of 4098 operations is over the limit of 4096\n"
          "  help: a C++ loop and the calls of a tw::function are written out in the kernel; use tw::range for a loop "
          "that is "
          "compiled once");
  }
}

TEST_CASE("the verifier finds what a pass could break") {
  const auto broken = [](void (*breaks)(Function&)) {
    Function f = parse(
        "func \"k\"(%0: view<f32, 0>, %1: f32) {\n%2 = exp %1 : f32\n%3 = add %2, %1 : f32\n"
        "%t = lt %1, %2 : bool\n%5 = if %t : f32 do {\n%6 = neg %2 : f32\nyield %6\n} do {\nyield %2\n}\n"
        "store %0, %5\n}\n");
    breaks(f);
    try {
      verify(f, Stage::recorded);
    } catch (const InternalError& e) {
      const std::string m = e.diagnostic().message;
      return m.substr(m.find("op ") + 3, m.rfind(" (") - m.find("op ") - 3);
    }
    return std::string("nothing found");
  };
  CHECK(broken([](Function& f) { std::swap(f.body().ops[0], f.body().ops[1]); }) ==
        "add: an operand is not visible here");
  CHECK(broken([](Function& f) { f.body().ops[1]->operands.pop_back(); }) == "add: add: takes 2 operands, got 1");
  CHECK(broken([](Function& f) { f.body().ops[1]->results[0]->type.elem = Dtype::i32; }) ==
        "add: its result types are wrong");
  CHECK(broken([](Function& f) { f.body().ops[3]->regions[0]->ops.pop_back(); }) ==
        "if: its region does not end in yield");
  CHECK(broken([](Function& f) { f.body().ops[3]->regions.pop_back(); }) == "if: it has 2 regions");
  CHECK(broken([](Function& f) { f.body().ops[4]->operands[1] = f.body().ops[3]->regions[0]->ops[0]->results[0]; }) ==
        "store: an operand is not visible here");
  CHECK(broken([](Function& f) { f.body().ops[0]->parent = nullptr; }) == "exp: it does not know its region");
  CHECK(broken([](Function&) {}) == "nothing found");
}
