// contract_fma, promote_vars, specialize_facts and expand_composed on small functions.
// Stands beside jit/passes.
#include <doctest/doctest.h>

#include <bit>
#include <string>

#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/interpret.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

constexpr const char* square_minus = R"(func "k"(%0: view<f32, 0>, %1: f32) {
  %2 = constant {value = 1.00048828125} : f32
  %3 = mul %1, %1 : f32
  %4 = sub %3, %2 : f32
  store %0, %4
}
)";

float run(const Function& f, float a) {
  float y = 0;
  const std::uint64_t slots[] = {reinterpret_cast<std::uint64_t>(&y), std::bit_cast<std::uint32_t>(a)};
  Interpreter(f).run(slots, {1, 1, 1});
  return y;
}

std::string contracted(const std::string& ops) {
  Function f = parse("func \"k\"(%0: view<f32, 0>, %a: f32, %b: f32, %c: f32) {\n" + ops + "}\n");
  passes::contract_fma(f);
  verify(f, Stage::recorded);
  return to_text(f);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("case 23: a * a - (1 + 2^-11) is 2^-24 contracted and 0 otherwise") {
  const float a = 1.0f + 0x1p-12f;
  Function on = parse(square_minus);
  passes::contract_fma(on);
  CHECK(run(on, a) == 0x1p-24f);
  Function off = parse(square_minus);
  off.options.contract = false;
  passes::contract_fma(off);
  CHECK(run(off, a) == 0.0f);
  CHECK(count(to_text(off), "fma") == 0);
}

TEST_CASE("what is one expression and what is not") {
  CHECK(contracted("%1 = mul %a, %b : f32\n%2 = add %c, %1 : f32\nstore %0, %2\n").find("fma %1, %2, %3") !=
        std::string::npos);
  // Two products: the left one is fused.
  const std::string both =
      contracted("%1 = mul %a, %b : f32\n%2 = mul %b, %c : f32\n%3 = add %1, %2 : f32\nstore %0, %3\n");
  CHECK(count(both, "fma") == 1);
  CHECK(count(both, "mul %2, %3") == 1);
  // Used twice, kept in a Var, or in another region: no part of the expression.
  CHECK(count(contracted("%1 = mul %a, %b : f32\n%2 = add %1, %c : f32\n%3 = add %1, %2 : f32\nstore %0, %3\n"),
              "fma") == 0);
  CHECK(count(contracted("%1 = mul %a, %b : f32\n%v = var %1 : f32\n%2 = var_get %v : f32\n%3 = add %2, %c : f32\n"
                         "store %0, %3\n"),
              "fma") == 0);
  CHECK(count(contracted("%1 = mul %a, %b : f32\n%t = constant {value = 1} : bool\nif %t do {\n"
                         "%3 = add %1, %c : f32\nstore %0, %3\nyield\n} do {\nyield\n}\n"),
              "fma") == 0);
  // c - a b is fma(-a, b, c).
  const std::string minus = contracted("%1 = mul %a, %b : f32\n%2 = sub %c, %1 : f32\nstore %0, %2\n");
  CHECK(minus.find("%4 = neg %1 : f32\n  %5 = fma %4, %2, %3 : f32") != std::string::npos);
}

TEST_CASE("promote_vars carries what a loop sets and nothing else") {
  Function f = parse(R"(func "k"(%0: view<f32, 0>, %a: f32, %n: i64) {
  %2 = constant {value = 0} : i64
  %3 = constant {value = 1} : i64
  %x = var %a : f32
  %y = var %a : f32
  for %2, %n, %3 do {
  (%6: i64)
    %7 = var_get %x : f32
    %8 = var_get %y : f32
    %9 = add %7, %8 : f32
    var_set %x, %9
    yield
  }
  %10 = var_get %x : f32
  store %0, %10
}
)");
  passes::promote_vars(f);
  verify(f, Stage::promoted);
  CHECK(to_text(f) == R"(func "k"(%0: view<f32, 0>, %1: f32, %2: i64) {
  %3 = constant {value = 0} : i64
  %4 = constant {value = 1} : i64
  %5 = for %3, %2, %4, %1 : f32 do {
  (%6: i64, %7: f32)
    %8 = add %7, %1 : f32
    yield %8
  }
  store %0, %5
}
)");
}

TEST_CASE("facts become constants") {
  Function f =
      parse(R"(func "k"(%0: view<f32, 2> {unit_stride = 2, zero_stride = 1}, %1: view<i64, 1>, %2: i64 {constant = 7}) {
  %3 = constant {value = 0} : i64
  %4 = stride %0 {axis = 0} : i64
  %5 = stride %0 {axis = 1} : i64
  %6 = stride %1 {axis = 0} : i64
  %7 = add %4, %5 : i64
  %8 = add %7, %2 : i64
  %9 = add %8, %6 : i64
  %10 = broadcast %9 {extents = [1]} : i64[1]
  store %1, %3, %10
}
)");
  passes::specialize_facts(f);
  passes::canonicalize(f);
  const std::string text = to_text(f);
  CHECK(count(text, "stride %") == 1);
  CHECK(text.find("constant {value = 8} : i64") != std::string::npos);
}

TEST_CASE("narrow floats compute in f32 and round once when expanded") {
  Function f = parse(R"(func "k"(%0: view<f16, 1>) {
  %1 = constant {value = 0} : i64
  %2 = load %0, %1 {extents = [4], pad = 0} : f16[4]
  %3 = exp %2 : f16[4]
  %4 = add %3, %2 : f16[4]
  %5 = lt %4, %2 : bool[4]
  %6 = where %5, %4, %2 : f16[4]
  %7 = reduce %6 {axis = 0, combine = sum} : f16
  %8 = broadcast %7 {extents = [4]} : f16[4]
  store %0, %1, %8
}
)");
  passes::expand_composed(f);
  verify(f, Stage::expanded);
  const std::string text = to_text(f);
  CHECK(count(text, " = exp ") == 0);
  CHECK(count(text, "f16[4]\n") > 3);
  CHECK_THROWS(verify(parse("func \"k\"(%0: f16) {\n%1 = add %0, %0 : f16\n}\n"), Stage::expanded));
}
