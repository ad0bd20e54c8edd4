// The passes as data: their order with the reasons, checked when this file is compiled, and the loop that runs them.
// Between specialisation and code generation; every pass is verified.
#include <array>
#include <span>
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
constexpr std::array common{
    Pass{"contract_fma",     passes::contract_fma,     ir::Stage::recorded},
    Pass{"inline_calls",     passes::inline_calls,     ir::Stage::recorded},
    Pass{"specialize_facts", passes::specialize_facts, ir::Stage::recorded},
    Pass{"promote_vars",     passes::promote_vars,     ir::Stage::promoted},
    Pass{"check_accesses",   passes::check_accesses,   ir::Stage::promoted},
    Pass{"check_overflow",   passes::check_overflow,   ir::Stage::promoted},
    Pass{"canonicalize",     passes::canonicalize,     ir::Stage::promoted},
    Pass{"prove_inside",     passes::prove_inside,     ir::Stage::promoted},
};
constexpr std::array for_all{
    Pass{"expand_composed",  passes::expand_composed,  ir::Stage::expanded},
    Pass{"canonicalize_expanded", passes::canonicalize, ir::Stage::expanded},
};
// Composed ops with a short form are left to the lowering. Merging equal ones can take the form away: hence the last.
constexpr std::array for_gpus{
    Pass{"expand_composed",  passes::expand_composed_but_short_forms, ir::Stage::promoted},
    Pass{"canonicalize_expanded", passes::canonicalize, ir::Stage::promoted},
    Pass{"expand_merged",    passes::expand_composed_but_short_forms, ir::Stage::promoted},
};

struct Order {
  std::string_view before, after, why;
};
constexpr std::array order{
    Order{"contract_fma", "promote_vars", "a product kept in a Var is another expression than the sum that reads it"},
    Order{"contract_fma", "inline_calls", "what a function gives is no part of its caller's expression, so a function means the same at each call"},
    Order{"inline_calls", "specialize_facts", "a view's facts are known of the kernel's parameters alone"},
    Order{"specialize_facts", "canonicalize", "a stride that became 1 folds the arithmetic on it"},
    Order{"promote_vars", "canonicalize", "a variable hides which values are equal"},
    Order{"promote_vars", "check_accesses", "a pointer kept in a variable has no origin that can be seen"},
    Order{"check_overflow", "canonicalize", "what is folded or merged is no operation of the user's any more"},
    Order{"check_overflow", "expand_composed", "range reductions wrap on purpose"},
    Order{"canonicalize", "prove_inside", "offsets must be in their simplest form to be compared with extents"},
    Order{"contract_fma", "expand_composed", "the products inside a composed function are not the user's: its fmas are its own"},
    Order{"expand_composed", "canonicalize_expanded", "equal range reductions of two functions of one argument merge"},
};
// clang-format on

template <std::size_t n>
consteval bool ordered(const std::array<Pass, n>& last) {
  constexpr std::size_t size = common.size() + n;
  for (const Order& o : order) {
    std::size_t before = size, after = size;
    for (std::size_t i = 0; i < size; ++i) {
      const Pass& pass = i < common.size() ? common[i] : last[i - common.size()];
      if (pass.name == o.before) before = i;
      if (pass.name == o.after) after = i;
    }
    if (before == size || after == size || before >= after) return false;
  }
  return true;
}
static_assert(ordered(for_all) && ordered(for_gpus),
              "a pass stands before one that it needs, or a name in `order` is misspelt");

void run_passes(ir::Function& f, std::span<const Pass> passes, int& number, const StageObserver& observe) {
  for (const Pass& pass : passes) {
    pass.run(f);
    ir::verify(f, pass.after);
    ++number;
    if (observe)
      observe((number < 10 ? "0" : "") + std::to_string(number) + "_" + std::string(pass.name), ir::to_readable(f));
  }
}
}  // namespace

void run_pipeline(ir::Function& f, const StageObserver& observe, Backend backend) {
  if (observe) observe("00_record", ir::to_readable(f));
  ir::verify(f, ir::Stage::recorded);
  int number = 0;
  run_passes(f, common, number, observe);
  if (backend == Backend::gpu) {
    run_passes(f, for_gpus, number, observe);
  } else {
    run_passes(f, for_all, number, observe);
  }
}

}  // namespace tileweave::jit
