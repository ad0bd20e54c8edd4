// Writes a * b + c as fma where the language allows it: within one expression, so that every backend sees the same fma.
// Runs before promote_vars and expand_composed: a product kept in a Var, and what functions are composed of, stay as
// they are.
#include <unordered_set>

#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

// The rule, on the text of the IR alone: a floating product whose only use is an addition or subtraction of the same
// region belongs to that expression. Of two products, the left one is fused.
class Contractor {
 public:
  explicit Contractor(const Function& f) : uses_(count_uses(f)) {
    // What a debugger shows changes no result: its look at a product is no use of it.
    for_each_op(f.body(), [&](const Op& op) {
      if (op.id == OpId::debug_value) shown_.insert(op.operands[0]), --uses_.at(op.operands[0]);
    });
    for_each_op(f.body(), [&](const Op& op) { choose(op); });
  }

  bool handle(Rewriter& w, const Op& op) const {
    if (absorbed_.contains(&op)) return true;
    const auto at = fused_.find(&op);
    if (at == fused_.end()) return false;
    w.replace(op.results[0], fuse(w, op, at->second));
    return true;
  }

 private:
  bool is_product(const Value* v, const Op& user) const {
    return v->def != nullptr && v->def->id == OpId::mul && v->def->parent == user.parent && uses_.at(v) == 1 &&
           is_float(v->type.elem);
  }

  void choose(const Op& op) {
    if (op.id != OpId::add && op.id != OpId::sub) return;
    for (std::size_t side = 0; side < 2; ++side) {
      if (!is_product(op.operands[side], op)) continue;
      fused_[&op] = side;
      if (!shown_.contains(op.operands[side])) absorbed_.insert(op.operands[side]->def);
      return;
    }
  }

  static Value* fuse(Rewriter& w, const Op& op, std::size_t side) {
    const Op& product = *op.operands[side]->def;
    Value* a = w.map(product.operands[0]);
    Value* b = w.map(product.operands[1]);
    Value* c = w.map(op.operands[1 - side]);
    // a * b - c = fma(a, b, -c) and c - a * b = fma(-a, b, c): negation is exact.
    if (op.id == OpId::sub) (side == 0 ? c : a) = w.builder().elementwise(OpId::neg, {side == 0 ? c : a}, op.place);
    return w.builder().elementwise(OpId::fma, {a, b, c}, op.place);
  }

  std::unordered_map<const Value*, int> uses_;
  std::unordered_map<const Op*, std::size_t> fused_;  // which operand is the product
  std::unordered_set<const Op*> absorbed_;            // products that are gone
  std::unordered_set<const Value*> shown_;            // by debug_value
};

}  // namespace

namespace {
void contract(Function& f) {
  const Contractor contractor(f);
  f = Rewriter(f).run([&](Rewriter& w, const Op& op) { return contractor.handle(w, op); });
}
}  // namespace

void contract_fma(Function& f) {
  if (!f.options.contract) return;
  for (Function& callee : f.callees) contract(callee);
  contract(f);
}

}  // namespace tileweave::passes
