// Functions on random programs: with pieces moved into functions a program means the same, its text reads back, and
// writing the calls out gives the program that was there before.
#include <doctest/doctest.h>

#include "tests/property/compare.h"
#include "tests/property/outline.h"
#include "tests/property/random_program.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

void check(std::uint64_t first, std::uint64_t count, const RandomOptions& options, const Executor& a,
           const Executor& b) {
  const auto failure = check_seeds(
      first, count, [&](std::uint64_t seed) { return random_program(seed, options); },
      [&](const Program& p) { return compare(outlined(p), a, b); });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

}  // namespace

TEST_CASE("programs with functions verify, print, read back and clone to equal text") {
  std::size_t functions = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Program p = outlined(random_program(seed));
    ir::verify(p.function, ir::Stage::recorded);
    functions += p.function.callees.size();
    const std::string text = to_text(p.function);
    CHECK(to_text(ir::parse(text)) == text);
    CHECK(to_text(ir::parse(to_readable(p.function))) == text);
    CHECK(to_text(p.function.clone()) == text);
  }
  CHECK(functions > 500);
}

TEST_CASE("a call means its function's body") {
  const auto failure = check_seeds(
      60'001, 500, [](std::uint64_t seed) { return random_program(seed); },
      [](const Program& p) -> std::optional<std::string> {
        // The interpreter on both: outlined programs have the memory of their origin.
        const Program q = outlined(p);
        const Executor calls = [&](const ir::Function&, std::span<const std::uint64_t> slots, const ir::Grid& grid) {
          ir::Interpreter(q.function).run(slots, grid);
        };
        return compare(p, interpreter(), calls);
      });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

TEST_CASE("inline_calls keeps the meaning") {
  check(70'001, 500, {}, interpreter(), after({passes::inline_calls}, ir::Stage::recorded));
}

TEST_CASE("the whole pipeline but for contraction keeps the meaning of calls") {
  check(80'001, 300, {.ops = 60}, interpreter(),
        after({passes::inline_calls, passes::specialize_facts, passes::promote_vars, passes::canonicalize,
               passes::prove_inside, passes::canonicalize, passes::expand_composed, passes::canonicalize},
              ir::Stage::expanded));
}

TEST_CASE("contraction before the calls are written out decides what is fused") {
  check(90'001, 300, {}, after({passes::contract_fma}, ir::Stage::recorded),
        after({passes::contract_fma, passes::inline_calls, passes::promote_vars, passes::canonicalize},
              ir::Stage::promoted));
}
