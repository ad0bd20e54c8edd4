// Every pass keeps the meaning of random programs bit for bit, and their text reads back.
// The interpreter at Stage::recorded is the reference; backends are compared elsewhere.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/property/compare.h"
#include "tests/property/random_program.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

using Pass = std::function<void(ir::Function&)>;

void check_passes(std::uint64_t first, std::uint64_t count, const RandomOptions& options, std::vector<Pass> passes,
                  ir::Stage stage) {
  const Executor plain = interpreter(), rewritten = after(std::move(passes), stage);
  const auto failure = check_seeds(
      first, count, [&](std::uint64_t seed) { return random_program(seed, options); },
      [&](const Program& p) { return compare(p, plain, rewritten); });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

}  // namespace

TEST_CASE("random programs verify, print, read back and clone to equal text") {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const Program p = random_program(seed);
    ir::verify(p.function, ir::Stage::recorded);
    const std::string text = to_text(p.function);
    CHECK(to_text(ir::parse(text)) == text);
    CHECK(to_text(ir::parse(to_readable(p.function))) == text);
    CHECK(to_text(p.function.clone()) == text);
    CHECK(to_text(random_program(seed).function) == text);
  }
}

TEST_CASE("promote_vars keeps the meaning") { check_passes(1, 600, {}, {passes::promote_vars}, ir::Stage::promoted); }

TEST_CASE("canonicalize keeps the meaning") {
  check_passes(10'001, 1000, {}, {passes::promote_vars, passes::canonicalize}, ir::Stage::promoted);
}

TEST_CASE("the identities hold for every element type") {
  const RandomOptions algebra{.ops = 12,
                              .max_elements = 64,
                              .special = 60,
                              .composed = false,
                              .reductions = 0,
                              .control = false,
                              .pointers = false,
                              .dots = false};
  check_passes(50'001, 3000, algebra, {passes::promote_vars, passes::canonicalize}, ir::Stage::promoted);
}

TEST_CASE("expand_composed keeps the meaning") {
  check_passes(20'001, 500, {}, {passes::promote_vars, passes::expand_composed}, ir::Stage::expanded);
}

TEST_CASE("the whole pipeline but for contraction keeps the meaning") {
  check_passes(30'001, 500, {.ops = 60},
               {passes::specialize_facts, passes::promote_vars, passes::canonicalize, passes::prove_inside,
                passes::canonicalize, passes::expand_composed, passes::canonicalize},
               ir::Stage::expanded);
}

TEST_CASE("contraction alone decides what is fused: later passes keep it") {
  const Executor contracted = after({passes::contract_fma}, ir::Stage::recorded);
  const Executor whole = after({passes::contract_fma, passes::specialize_facts, passes::promote_vars,
                                passes::canonicalize, passes::expand_composed, passes::canonicalize},
                               ir::Stage::expanded);
  const auto failure = check_seeds(
      40'001, 400, [&](std::uint64_t seed) { return random_program(seed); },
      [&](const Program& p) { return compare(p, contracted, whole); });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

TEST_CASE("a broken pass is found, and its program shrunk to a few ops") {
  const Pass broken = [](ir::Function& f) {
    for (const auto& op : f.body().ops) {
      if (op->id == ir::OpId::exp) op->id = ir::OpId::exp2;
    }
  };
  const Executor plain = interpreter(), wrong = after({broken}, ir::Stage::recorded);
  const auto failure = check_seeds(
      1, 1000, [&](std::uint64_t seed) { return random_program(seed); },
      [&](const Program& p) { return compare(p, plain, wrong); });
  REQUIRE(failure);
  CHECK(failure->find("= exp ") != std::string::npos);
  CHECK(std::count(failure->begin(), failure->end(), '\n') < 40);
}
