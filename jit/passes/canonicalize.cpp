// Simplifies: folds, merges equal ops, applies exact identities, unrolls control flow that is decided, drops masks that
// say nothing and values that nobody needs, hoists out of loops.
// Runs after promote_vars and again after expand_composed.
#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/dead_values.h"
#include "tileweave/jit/passes/hoist.h"
#include "tileweave/jit/passes/identities.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

class Simplifier {
 public:
  explicit Simplifier(Rewriter& w) : identities_(w.builder()) {}

  bool changed() const { return changed_; }

  bool handle(Rewriter& w, const Op& op) {
    reordered_ = false;
    const bool done = dispatch(w, op);
    changed_ = changed_ || (done && !reordered_);
    return done;
  }

 private:
  bool dispatch(Rewriter& w, const Op& op) {
    switch (op.id) {
      case OpId::if_:
        return simplify_if(w, op);
      case OpId::for_:
        return simplify_for(w, op);
      case OpId::load:
      case OpId::store:
      case OpId::load_ptr:
      case OpId::store_ptr:
        return simplify_access(w, op);
      default:
        return op_info(op.id).effects == Effects::pure && simplify_pure(w, op);
    }
  }

  bool simplify_pure(Rewriter& w, const Op& op) {
    std::vector<Value*> operands = w.map(op.operands);
    const std::vector<Value*> before = operands;
    if (Value* v = identities_.simplify(op, operands)) {
      w.replace(op.results[0], v);
      return true;
    }
    if (operands == before) return false;
    // Commutative operands in their order: no change that another round could build on.
    w.replace(op.results[0], w.builder().remake(op, operands, op.place));
    reordered_ = true;
    return true;
  }

  static void inline_region(Rewriter& w, const Op& op, const Region& r, std::vector<Value*> args) {
    for (std::size_t i = 0; i < args.size(); ++i) w.replace(r.args[i], args[i]);
    const Op& end = w.rewrite_body(r);
    const std::vector<Value*> given = w.map(end.operands);
    for (std::size_t i = 0; i < op.results.size(); ++i) w.replace(op.results[i], given[i]);
  }

  // An if that is decided is the branch taken.
  bool simplify_if(Rewriter& w, const Op& op) {
    const auto c = constant_of(w.map(op.operands[0]));
    if (!c) return false;
    inline_region(w, op, *op.regions[*c != 0 ? 0 : 1], {});
    return true;
  }

  // No trip gives the initial values; one trip is the body.
  bool simplify_for(Rewriter& w, const Op& op) {
    const std::vector<Value*> operands = w.map(op.operands);
    const auto lo = constant_of(operands[0]), hi = constant_of(operands[1]), step = constant_of(operands[2]);
    if (!lo || !hi || !step) return false;
    const auto l = static_cast<std::int64_t>(*lo), h = static_cast<std::int64_t>(*hi),
               s = static_cast<std::int64_t>(*step);
    const std::vector<Value*> inits(operands.begin() + 3, operands.end());
    if (s == 0 || (s > 0 ? l >= h : l <= h)) {
      for (std::size_t i = 0; i < op.results.size(); ++i) w.replace(op.results[i], inits[i]);
      return true;
    }
    std::int64_t next = 0;
    const bool single = __builtin_add_overflow(l, s, &next) || (s > 0 ? next >= h : next <= h);
    if (!single) return false;
    std::vector<Value*> args{operands[0]};
    args.insert(args.end(), inits.begin(), inits.end());
    inline_region(w, op, *op.regions[0], std::move(args));
    return true;
  }

  // Whether a mask repeats what the access to a view does by itself: clip to the same block.
  static bool is_own_clip(const Value* mask, const std::vector<Value*>& operands, const Type& block) {
    const Op* d = mask->def;
    if (d == nullptr || d->id != OpId::inside || d->results[0]->type.extents != block.extents) return false;
    return std::equal(d->operands.begin(), d->operands.end(), operands.begin());
  }

  // The mask without what is always true or done anyway; null where nothing is left.
  static Value* needed_mask(Value* mask, const std::vector<Value*>& operands, const Type& block, bool view, Builder& b,
                            const Place& p) {
    if (constant_of(mask) == 1) return nullptr;
    if (!view) return mask;
    if (is_own_clip(mask, operands, block)) return nullptr;
    if (mask->def == nullptr || mask->def->id != OpId::bit_and) return mask;
    Value* left = needed_mask(mask->def->operands[0], operands, block, view, b, p);
    Value* right = needed_mask(mask->def->operands[1], operands, block, view, b, p);
    if (left == mask->def->operands[0] && right == mask->def->operands[1]) return mask;
    if (left == nullptr || right == nullptr) return left != nullptr ? left : right;
    return b.elementwise(OpId::bit_and, {left, right}, p);
  }

  bool simplify_access(Rewriter& w, const Op& op) {
    if (op.attrs.get_int(AttrKey::masked) == 0) return false;
    std::vector<Value*> operands = w.map(op.operands);
    const bool view = op.id == OpId::load || op.id == OpId::store,
               loads = op.id == OpId::load || op.id == OpId::load_ptr;
    Value* mask = operands.back();
    if (constant_of(mask) == 0) {  // no lane is accessed
      if (loads) {
        const auto pad = static_cast<std::uint64_t>(op.attrs.get_int(AttrKey::pad));
        w.replace(op.results[0], w.builder().constant_bits(op.results[0]->type, pad, op.place));
      }
      return true;
    }
    Value* needed = needed_mask(mask, operands, mask->type, view, w.builder(), op.place);
    if (needed == mask) return false;
    operands.pop_back();
    Attrs attrs = op.attrs;
    if (needed != nullptr)
      operands.push_back(needed);
    else
      attrs.erase(AttrKey::masked);
    const Op* made = w.builder().insert(op.id, std::move(operands), std::move(attrs), {}, op.place);
    if (loads) w.replace(op.results[0], made->results[0]);
    return true;
  }

  Identities identities_;
  bool changed_ = false;
  bool reordered_ = false;  // the op at hand had its commutative operands put in order, and nothing else
};

bool simplify(Function& f) {
  Rewriter rewriter(f);
  Simplifier simplifier(rewriter);
  f = rewriter.run([&](Rewriter& w, const Op& op) { return simplifier.handle(w, op); });
  return simplifier.changed();
}

// A rule may open the way for another, an op hoisted may equal one outside; few functions need a third round.
constexpr int max_rounds = 5;

}  // namespace

void canonicalize(Function& f) {
  if (f.options.debug >= 2) return;  // for a debugger everything stays where the user wrote it
  for (int round = 0; round < max_rounds; ++round) {
    bool changed = simplify(f);
    changed = erase_dead(f) || changed;
    changed = hoist_invariants(f) || changed;
    if (!changed) return;
  }
}

}  // namespace tileweave::passes
