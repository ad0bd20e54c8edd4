// Makes a failing program smaller, one op at a time, as long as it still fails.
// Called by compare.cpp at the first failure.
#include <unordered_set>

#include "tests/property/compare.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::property {
namespace {

using namespace ir;

// A change of one op. Whiles are only ever dropped whole: a counter that no longer counts would never end.
enum class Cut { first_operand, second_operand, third_operand, zero, drop, then_branch, else_branch, one_trip };
constexpr Cut cuts[] = {Cut::drop,          Cut::zero,        Cut::first_operand, Cut::second_operand,
                        Cut::third_operand, Cut::then_branch, Cut::else_branch,   Cut::one_trip};

bool is_inside_while(const Op& op) {
  for (const Region* r = op.parent; r->parent != nullptr; r = r->parent->parent) {
    if (r->parent->id == OpId::while_) return true;
  }
  return false;
}

bool replace_by_operand(Rewriter& w, const Op& op, std::size_t i) {
  if (op.results.size() != 1 || !op.regions.empty() || i >= op.operands.size()) return false;
  if (op.id == OpId::var || op.id == OpId::var_get || op.operands[i]->type != op.results[0]->type) return false;
  w.replace(op.results[0], w.map(op.operands[i]));
  return true;
}

bool replace_by_zero(Rewriter& w, const Op& op) {
  if (op.results.size() != 1 || !op.regions.empty() || op.id == OpId::var || op.id == OpId::constant) return false;
  if (!op.results[0]->type.is_tile()) return false;
  w.replace(op.results[0], w.builder().constant_bits(op.results[0]->type, 0));
  return true;
}

bool drop(const Op& op) { return op.results.empty() && op.id != OpId::yield && op.id != OpId::condition; }

bool take_branch(Rewriter& w, const Op& op, std::size_t branch) {
  if (op.id != OpId::if_ || !op.results.empty()) return false;
  w.rewrite_body(*op.regions[branch]);
  return true;
}

bool take_one_trip(Rewriter& w, const Op& op) {
  if (op.id != OpId::for_ || !op.results.empty()) return false;
  w.replace(op.regions[0]->args[0], w.map(op.operands[0]));
  w.rewrite_body(*op.regions[0]);
  return true;
}

bool apply(Rewriter& w, const Op& op, Cut cut) {
  switch (cut) {
    case Cut::first_operand:
    case Cut::second_operand:
    case Cut::third_operand:
      return replace_by_operand(w, op, static_cast<std::size_t>(cut));
    case Cut::zero:
      return replace_by_zero(w, op);
    case Cut::drop:
      return drop(op);
    case Cut::then_branch:
    case Cut::else_branch:
      return take_branch(w, op, cut == Cut::then_branch ? 0 : 1);
    case Cut::one_trip:
      return take_one_trip(w, op);
  }
  return false;
}

std::size_t op_count(const Function& f) {
  std::size_t n = 0;
  for_each_op(f.body(), [&](const Op&) { ++n; });
  return n;
}

// Vars that are only ever set.
std::unordered_set<const Value*> unread_vars(const Function& f) {
  std::unordered_set<const Value*> vars;
  for_each_op(f.body(), [&](const Op& op) {
    if (op.id == OpId::var) vars.insert(op.results[0]);
  });
  for_each_op(f.body(), [&](const Op& op) {
    if (op.id == OpId::var_get) vars.erase(op.operands[0]);
  });
  return vars;
}

// Drops pure ops, loads and vars that nothing uses. Gives how many went.
std::size_t tidy(Function& f) {
  const std::size_t before = op_count(f);
  for (;;) {
    const auto uses = count_uses(f);
    const auto unread = unread_vars(f);
    const std::size_t now = op_count(f);
    f = Rewriter(f).run([&](Rewriter&, const Op& op) {
      if (op.id == OpId::var_set || op.id == OpId::var)
        return unread.contains(op.id == OpId::var ? op.results[0] : op.operands[0]);
      return op.regions.empty() && op.results.size() == 1 && !uses.contains(op.results[0]);
    });
    if (op_count(f) == now) return before - now;
  }
}

// The program with the `index`th op cut, or nothing where the cut does not fit it.
std::optional<Program> with_cut(const Program& p, std::size_t index, Cut cut) {
  std::size_t at = 0;
  bool done = false;
  Program smaller{p.seed, Function(p.function.name), p.arguments, p.grid};
  smaller.function = Rewriter(p.function).run([&](Rewriter& w, const Op& op) {
    if (at++ != index || is_inside_while(op)) return false;
    done = apply(w, op, cut);
    return done;
  });
  if (!done) return std::nullopt;
  tidy(smaller.function);
  return smaller;
}

}  // namespace

Program shrink(Program p, const Check& check) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = op_count(p.function); i-- > 0;) {
      for (const Cut cut : cuts) {
        auto candidate = with_cut(p, i, cut);
        if (!candidate || op_count(candidate->function) >= op_count(p.function) || !check(*candidate)) continue;
        p = std::move(*candidate);
        smaller = true;
        break;
      }
    }
  }
  return p;
}

}  // namespace tileweave::property
