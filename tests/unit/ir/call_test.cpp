// Functions of a module: text, verifier, interpreter, and the pass that writes them out.
// Stands beside jit/ir and jit/passes/inline_calls.cpp.
#include <doctest/doctest.h>

#include <bit>
#include <string>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/interpret.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

const std::string halved =
    R"(func "halved"(%0: f32[4], %1: f32) {
  %2 = constant {value = 1056964608} : f32
  %3 = mul %1, %2 : f32
  %4 = broadcast %3 {extents = [4]} : f32[4]
  %5 = mul %0, %4 : f32[4]
  yield %5, %3
}
)";
const std::string both =
    R"(func "both"(%0: view<const f32, 1>, %1: i64, %2: f32) {
  %3 = load %0, %1 {extents = [4], pad = 0} : f32[4]
  %4, %5 = call %3, %2 {name = halved} : f32[4], f32
  %6, %7 = call %4, %5 {name = halved} : f32[4], f32
  yield %6
}
)";
const std::string kernel =
    R"(func "k"(%0: view<const f32, 1>, %1: view<f32, 1>, %2: f32) {
  %3 = constant {value = 0} : i64
  %4 = constant {value = 3} : i64
  %5 = constant {value = 1} : i64
  %6 = call %0, %3, %2 {name = both} : f32[4]
  %7 = for %3, %4, %5, %6 : f32[4] do {
  (%8: i64, %9: f32[4])
    %10, %11 = call %9, %2 {name = halved} : f32[4], f32
    yield %10
  }
  store %1, %3, %7
}
)";
const std::string module_text = halved + "\n" + both + "\n" + kernel;

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const CompileError& e) {
    return e.diagnostic().message;
  }
  return "no error";
}

std::vector<float> run(const Function& f) {
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  const std::uint64_t slots[] = {reinterpret_cast<std::uint64_t>(x.data()), 4, 1,
                                 reinterpret_cast<std::uint64_t>(y.data()), 4, 1,
                                 std::bit_cast<std::uint32_t>(4.0f)};
  Interpreter(f).run(slots, {1, 1, 1});
  return y;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a module's text is read back to equal text, and copied whole") {
  const Function f = parse(module_text);
  CHECK(f.name == "k");
  REQUIRE(f.callees.size() == 2);
  CHECK(f.callees[1].name == "both");
  CHECK(to_text(f) == module_text);
  CHECK(to_text(parse(to_readable(f))) == module_text);
  CHECK(to_text(f.clone()) == module_text);
  CHECK(f.find_callee("halved") == &f.callees[0]);
  CHECK(f.find_callee("k") == nullptr);
}

TEST_CASE("a function's body is part of its kernel's text") {
  std::string other = module_text;
  other.replace(other.find("1056964608"), 10, "1065353216");
  CHECK(to_text(parse(other)) != module_text);
}

TEST_CASE("calls mean their functions' bodies") {
  // x * 2 * 1 by `both`, with the factor 4 halved each time it is handed on; then three times * 2.
  const std::vector<float> expected = {16, 32, 48, 64};
  Function f = parse(module_text);
  CHECK(run(f) == expected);
  passes::inline_calls(f);
  verify(f, Stage::recorded);
  CHECK(f.callees.empty());
  CHECK_FALSE(has(to_text(f), "call"));
  CHECK(run(f) == expected);
}

TEST_CASE("what is written out keeps the places of the function's lines") {
  Function f = parse(
      "func \"f\"(%0: f32) {\n  %1 = sqrt %0 : f32  ; at f.cpp:7:3\n  yield %1\n}\n"
      "func \"k\"(%0: view<f32, 0>, %1: f32) {\n  %2 = call %1 {name = f} : f32  ; at k.cpp:9:1\n"
      "  store %0, %2  ; at k.cpp:10:1\n}\n");
  passes::inline_calls(f);
  CHECK(has(to_readable(f), "sqrt %1 : f32  ; at f.cpp:7:3"));
}

TEST_CASE("a product is no part of an expression on the other side of a call") {
  Function f = parse(
      "func \"f\"(%0: f32, %1: f32) {\n  %2 = add %0, %1 : f32\n  %3 = mul %0, %1 : f32\n"
      "  %4 = add %3, %2 : f32\n  yield %4\n}\n"
      "func \"k\"(%0: view<f32, 0>, %1: f32) {\n  %2 = mul %1, %1 : f32\n"
      "  %3 = call %2, %1 {name = f} : f32\n  store %0, %3\n}\n");
  passes::contract_fma(f);
  passes::inline_calls(f);
  const std::string text = to_text(f);
  CHECK(has(text, "fma"));                    // inside the function
  CHECK(has(text, "%2 = mul %1, %1 : f32"));  // and not across its edge
}

TEST_CASE("modules that are none are refused by rule") {
  const std::string calls_itself = "func \"f\"(%0: f32) {\n  %1 = call %0 {name = f} : f32\n  yield %1\n}\n" + kernel;
  CHECK(has(error_of(calls_itself), "in 'f', op call: no function 'f' stands before this one: none may call itself"));
  CHECK(has(error_of(both + halved + kernel), "no function 'halved' stands before this one"));
  CHECK(has(error_of(halved + halved + both + kernel), "in 'halved': two functions have this name"));
  std::string typed = module_text;
  typed.replace(typed.find("%9, %2 {name"), 6, "%9, %8");
  CHECK(has(error_of(typed), "its arguments are not of the types of the parameters of 'halved'"));
  std::string results = module_text;
  results.replace(results.find(": f32[4], f32\n  %6"), 13, ": f32[4], f64");
  CHECK(has(error_of(results), "its results are not of the types that 'halved' gives"));
  CHECK(has(error_of("func \"f\"() {\n}\n" + kernel), "in 'f': its body does not end in yield"));
  CHECK(has(error_of("func \"f\"(%0: view<f32, 1> {unit_stride = 1}) {\n  yield\n}\n" + kernel),
            "what a launch knows is the kernel's"));
  CHECK(has(error_of("func \"k\"(%0: f32[4]) {\n}\n"), "a parameter is a view or a scalar, not f32[4]"));
  CHECK(has(error_of("func \"k\"() {\n  call\n}\n"), "names no function"));
}

TEST_CASE("calls within calls are bounded when they are written out") {
  std::string text = "func \"f0\"(%0: f32) {\n  %1 = sqrt %0 : f32\n  yield %1\n}\n";
  for (int i = 1; i <= 20; ++i) {
    const std::string callee = "{name = f" + std::to_string(i - 1) + "}";
    text += "func \"f" + std::to_string(i) + "\"(%0: f32) {\n  %1 = call %0 " + callee + " : f32\n  %2 = call %1 " +
            callee + " : f32\n  yield %2\n}\n";
  }
  text += "func \"k\"(%0: view<f32, 0>, %1: f32) {\n  %2 = call %1 {name = f20} : f32\n  store %0, %2\n}\n";
  Function f = parse(text);
  CHECK_THROWS_WITH_AS(passes::inline_calls(f),
                       doctest::Contains("take more than 65536 operations when every call is written out"),
                       RecordError);
}
