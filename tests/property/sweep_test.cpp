// Every op row x element type x edge value: what the passes make of it means the same, and reads back.
// The backends' tests run the same programs.
#include <doctest/doctest.h>

#include "tests/property/compare.h"
#include "tests/property/sweep.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

void check_all(const std::vector<SweepCase>& cases) {
  const Executor plain = interpreter();
  const Executor expanded = after(
      {passes::promote_vars, passes::canonicalize, passes::expand_composed, passes::canonicalize}, ir::Stage::expanded);
  for (const SweepCase& c : cases) {
    ir::verify(c.program.function, ir::Stage::recorded);
    const auto difference = compare(c.program, plain, expanded);
    CHECK_MESSAGE(!difference, c.name << ": " << difference.value_or(""));
    CHECK_MESSAGE(to_text(ir::parse(to_text(c.program.function))) == to_text(c.program.function), c.name);
  }
}

}  // namespace

TEST_CASE("every element-wise op at every type and edge value") {
  const auto cases = elementwise_sweep();
  CHECK(cases.size() > 500);
  check_all(cases);
}

TEST_CASE("every conversion and bit cast") { check_all(conversion_sweep()); }

TEST_CASE("every reduction, masked and not") { check_all(reduction_sweep()); }

TEST_CASE("scans, sorts and moves, masked and not") { check_all(lanes_sweep()); }
