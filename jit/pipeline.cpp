// The passes as data: their order with the reasons, checked when this file is compiled, and the loop that runs them.
// Between specialisation and code generation; every pass is verified.
#include <array>
#include <string_view>

#include "tileweave/jit/compile.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::jit {
namespace {
struct Pass {
  std::string_view name;
  void (*run)(ir::Function&);
  ir::Stage after;  // what holds when it is done
};

// clang-format off
constexpr std::array passes{
    Pass{"contract_fma",     passes::contract_fma,     ir::Stage::recorded},
    Pass{"specialize_facts", passes::specialize_facts, ir::Stage::recorded},
    Pass{"promote_vars",     passes::promote_vars,     ir::Stage::promoted},
    Pass{"canonicalize",     passes::canonicalize,     ir::Stage::promoted},
    Pass{"prove_inside",     passes::prove_inside,     ir::Stage::promoted},
    Pass{"expand_composed",  passes::expand_composed,  ir::Stage::expanded},
    Pass{"canonicalize_expanded", passes::canonicalize, ir::Stage::expanded},
};

struct Order {
  std::string_view before, after, why;
};
constexpr std::array order{
    Order{"contract_fma", "promote_vars", "a product kept in a Var is another expression than the sum that reads it"},
    Order{"specialize_facts", "canonicalize", "a stride that became 1 folds the arithmetic on it"},
    Order{"promote_vars", "canonicalize", "a variable hides which values are equal"},
    Order{"canonicalize", "prove_inside", "offsets must be in their simplest form to be compared with extents"},
    Order{"contract_fma", "expand_composed", "the products inside a composed function are not the user's: its fmas are its own"},
    Order{"expand_composed", "canonicalize_expanded", "equal range reductions of two functions of one argument merge"},
};
// clang-format on

consteval bool ordered() {
  for (const Order& o : order) {
    std::size_t before = passes.size(), after = passes.size();
    for (std::size_t i = 0; i < passes.size(); ++i) {
      if (passes[i].name == o.before) before = i;
      if (passes[i].name == o.after) after = i;
    }
    if (before == passes.size() || after == passes.size() || before >= after) return false;
  }
  return true;
}
static_assert(ordered(), "a pass stands before one that it needs, or a name in `order` is misspelt");
}  // namespace

void run_pipeline(ir::Function& f, const StageObserver& observe) {
  if (observe) observe("00_record", ir::to_readable(f));
  ir::verify(f, ir::Stage::recorded);
  int number = 0;
  for (const Pass& pass : passes) {
    pass.run(f);
    ir::verify(f, pass.after);
    ++number;
    if (observe)
      observe((number < 10 ? "0" : "") + std::to_string(number) + "_" + std::string(pass.name), ir::to_readable(f));
  }
}

}  // namespace tileweave::jit
