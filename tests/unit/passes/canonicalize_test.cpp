// canonicalize: what goes, what stays because it is not exact, and how small the result is.
// Stands beside jit/passes/canonicalize.cpp, identities.cpp, dead_values.cpp and hoist.cpp.
#include <doctest/doctest.h>

#include <string>

#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/interpret.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

// Ops on %3 (f32[4]), %4 (i32[4]), %5 (bool[4]) whose last value, %9, is stored: how `%9` is made afterwards.
std::string simplified(const std::string& ops, const std::string& type = "f32") {
  Function f = parse("func \"k\"(%0: view<f32, 1>, %1: view<i32, 1>, %2: view<bool, 1>, %s: f32, %out: view<" + type +
                     ", 1>) {\n%z = constant {value = 0} : i64\n"
                     "%3 = load %0, %z {extents = [4], pad = 0} : f32[4]\n"
                     "%4 = load %1, %z {extents = [4], pad = 0} : i32[4]\n"
                     "%5 = load %2, %z {extents = [4], pad = 0} : bool[4]\n" +
                     ops + "store %out, %z, %9\n}\n");
  passes::canonicalize(f);
  verify(f, Stage::promoted);
  const Op& store = *f.body().ops.back();
  const Value* v = store.operands[2];
  std::string name = std::string(op_info(v->def->id).name);
  if (v->def->id == OpId::load) name += " " + std::string(dtype_name(v->type.elem));
  return name;
}

std::string constant(const std::string& name, const std::string& value, const std::string& type) {
  return name + " = constant {value = " + value + "} : " + type + "\n";
}

}  // namespace

TEST_CASE("identities that are exact are applied") {
  CHECK(simplified(constant("%6", "1.0", "f32[4]") + "%9 = mul %6, %3 : f32[4]\n") == "load f32");
  CHECK(simplified(constant("%6", "-0.0", "f32[4]") + "%9 = add %3, %6 : f32[4]\n") == "load f32");
  CHECK(simplified(constant("%6", "0.0", "f32[4]") + "%9 = sub %3, %6 : f32[4]\n") == "load f32");
  CHECK(simplified(constant("%6", "-1.0", "f32[4]") + "%9 = mul %3, %6 : f32[4]\n") == "neg");
  CHECK(simplified(constant("%6", "8.0", "f32[4]") + "%9 = div %3, %6 : f32[4]\n") == "mul");
  CHECK(simplified("%6 = neg %3 : f32[4]\n%9 = neg %6 : f32[4]\n") == "load f32");
  CHECK(simplified("%9 = where %5, %3, %3 : f32[4]\n") == "load f32");
  CHECK(simplified("%6 = convert %3 : f64[4]\n%9 = convert %6 : f32[4]\n") == "load f32");
  CHECK(simplified("%9 = sub %4, %4 : i32[4]\n", "i32") == "constant");
  CHECK(simplified(constant("%6", "0", "i32[4]") + "%9 = mul %4, %6 : i32[4]\n", "i32") == "constant");
  CHECK(simplified("%6 = lt %4, %4 : bool[4]\n%7 = bit_not %6 : bool[4]\n%9 = bit_and %5, %7 : bool[4]\n", "bool") ==
        "load bool");
  CHECK(simplified("%6 = lt %4, %4 : bool[4]\n%9 = bit_and %5, %6 : bool[4]\n", "bool") == "constant");
}

TEST_CASE("identities that are not exact for some input are not applied") {
  CHECK(simplified(constant("%6", "0.0", "f32[4]") + "%9 = add %3, %6 : f32[4]\n") == "add");   // -0 + 0 = +0
  CHECK(simplified(constant("%6", "-0.0", "f32[4]") + "%9 = sub %3, %6 : f32[4]\n") == "sub");  // -0 - -0 = +0
  CHECK(simplified(constant("%6", "0.0", "f32[4]") + "%9 = mul %3, %6 : f32[4]\n") == "mul");   // infinities, NaN, -0
  CHECK(simplified("%9 = sub %3, %3 : f32[4]\n") == "sub");                                     // infinities, NaN
  CHECK(simplified("%9 = eq %3, %3 : bool[4]\n", "bool") == "eq");                              // NaN
  CHECK(simplified("%6 = lt %3, %3 : bool[4]\n%9 = bit_not %6 : bool[4]\n", "bool") == "constant");
  CHECK(simplified(constant("%6", "3.0", "f32[4]") + "%9 = div %3, %6 : f32[4]\n") == "div");
  CHECK(simplified(constant("%6", "1e-42", "f32[4]") + "%9 = div %3, %6 : f32[4]\n") == "div");
  CHECK(simplified(constant("%6", "7.174648137343064e-43", "f32[4]") + "%9 = div %3, %6 : f32[4]\n") ==
        "div");  // 2^140 is none
  CHECK(simplified("%6 = convert %3 : f16[4]\n%9 = convert %6 : f32[4]\n") == "convert");
  CHECK(simplified("%6 = convert %4 : f32[4]\n%9 = convert %6 : i32[4]\n", "i32") == "convert");
}

TEST_CASE("an integer that went through a float saturates, it does not wrap") {
  Function f = parse(
      "func \"k\"(%0: view<const i32, 1>, %1: view<i8, 1>) {\n%2 = constant {value = 0} : i64\n"
      "%3 = load %0, %2 {extents = [2], pad = 0} : i32[2]\n"
      "%4 = convert %3 : f64[2]\n%5 = convert %4 : i8[2]\nstore %1, %2, %5\n}\n");
  passes::canonicalize(f);
  CHECK(to_text(f).find("f64") == std::string::npos);
  std::int32_t x[] = {300, -5};
  std::int8_t y[2];
  const std::uint64_t slots[] = {reinterpret_cast<std::uint64_t>(x), 2, 1, reinterpret_cast<std::uint64_t>(y), 2, 1};
  Interpreter(f).run(slots, {1, 1, 1});
  CHECK(y[0] == 127);
  CHECK(y[1] == -5);
}

TEST_CASE("an infinity of f8e5m2 does not come back from f32") {
  Function f = parse(
      "func \"k\"(%0: view<f8e5m2, 1>) {\n%2 = constant {value = 0} : i64\n"
      "%3 = load %0, %2 {extents = [2], pad = 0} : f8e5m2[2]\n"
      "%4 = convert %3 : f32[2]\n%5 = convert %4 : f8e5m2[2]\n%6 = minimum %3, %3 : f8e5m2[2]\n"
      "%7 = maximum %5, %6 : f8e5m2[2]\nstore %0, %2, %7\n}\n");
  passes::canonicalize(f);
  f8e5m2 x[] = {f8e5m2::from_bits(0x7c), f8e5m2(1.5f)};
  const std::uint64_t slots[] = {reinterpret_cast<std::uint64_t>(x), 2, 1};
  Interpreter(f).run(slots, {1, 1, 1});
  CHECK(static_cast<float>(x[0]) == 57344);
  CHECK(static_cast<float>(x[1]) == 1.5f);
}

TEST_CASE("control flow that is decided, dead values, masks and invariants go") {
  Function f = parse(R"(func "k"(%0: view<f32, 1>, %1: f32, %n: i64) {
  %2 = constant {value = 0} : i64
  %3 = constant {value = 1} : i64
  %yes = constant {value = 1} : bool
  %4 = broadcast %1 {extents = [8]} : f32[8]
  %5, %dead = for %2, %n, %3, %4, %4 : f32[8], f32[8] do {
  (%6: i64, %7: f32[8], %8: f32[8])
    %9 = exp %1 : f32
    %10 = broadcast %9 {extents = [8]} : f32[8]
    %11 = add %7, %10 : f32[8]
    %12 = mul %8, %10 : f32[8]
    yield %11, %12
  }
  %13 = if %yes : f32[8] do {
    yield %5
  } do {
    yield %4
  }
  %14 = inside %0, %2 {extents = [8]} : bool[8]
  store %0, %2, %13, %14 {masked = 1}
}
)");
  passes::canonicalize(f);
  verify(f, Stage::promoted);
  CHECK(to_text(f) == R"(func "k"(%0: view<f32, 1>, %1: f32, %2: i64) {
  %3 = constant {value = 0} : i64
  %4 = constant {value = 1} : i64
  %5 = broadcast %1 {extents = [8]} : f32[8]
  %6 = exp %1 : f32
  %7 = for %3, %2, %4, %5 : f32[8] do {
  (%8: i64, %9: f32[8])
    %10 = broadcast %6 {extents = [8]} : f32[8]
    %11 = add %9, %10 : f32[8]
    yield %11
  }
  store %0, %3, %7
}
)");
}

TEST_CASE("a value kept by a store in a loop stays, one that only feeds itself goes") {
  Function f = parse(R"(func "k"(%0: view<i64, 1>, %n: i64) {
  %2 = constant {value = 0} : i64
  %3 = constant {value = 1} : i64
  %a, %b, %c = while %2, %2, %2 : i64, i64, i64 do {
  (%4: i64, %5: i64, %6: i64)
    %7 = lt %4, %n : bool
    condition %7, %4, %5, %6
  } do {
  (%8: i64, %9: i64, %10: i64)
    %11 = add %8, %3 : i64
    %12 = add %9, %8 : i64
    %13 = add %10, %9 : i64
    %14 = broadcast %12 {extents = [1]} : i64[1]
    store %0, %8, %14
    yield %11, %12, %13
  }
}
)");
  passes::canonicalize(f);
  verify(f, Stage::promoted);
  const Op& loop = *f.body().ops.back();
  CHECK(loop.results.size() == 2);
}

TEST_CASE("canonicalizing twice changes nothing more") {
  Function f = parse(R"(func "k"(%0: view<f32, 2>, %1: f32) {
  %2 = program_id {axis = 0} : i64
  %3 = constant {value = 0} : i64
  %4 = load %0, %2, %3 {extents = [1, 64], pad = 0} : f32[1,64]
  %5 = inside %0, %2, %3 {extents = [1, 64]} : bool[1,64]
  %6 = reduce %4, %5 {axis = 1, masked = 1, combine = sum} : f32[1]
  %7 = expand_dims %6 {axis = 1} : f32[1,1]
  %8 = broadcast %1 {extents = [1, 1]} : f32[1,1]
  %9 = div %7, %8 : f32[1,1]
  %10 = broadcast %9 {extents = [1, 64]} : f32[1,64]
  %11 = sub %4, %10 : f32[1,64]
  store %0, %2, %3, %11, %5 {masked = 1}
}
)");
  passes::canonicalize(f);
  const std::string once = to_text(f);
  passes::canonicalize(f);
  CHECK(to_text(f) == once);
}
