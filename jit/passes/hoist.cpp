// Loop-invariant code motion, in place, inner loops first.
// Used by canonicalize.
#include "tileweave/jit/passes/hoist.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::passes {
namespace {

using namespace ir;

bool is_loop(const Op& op) { return op.id == OpId::for_ || op.id == OpId::while_; }

bool is_cheap_to_remake(const Op& op) {
  if (op.results[0]->type.is_scalar()) return false;
  switch (op.id) {
    case OpId::constant:
    case OpId::iota:
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::reshape:
    case OpId::trans:
    case OpId::bitcast:
    case OpId::inside:
    case OpId::ptr_add:
      return true;
    default:
      return false;
  }
}

class Hoister {
 public:
  bool run(Region& r) {
    for (std::size_t i = 0; i < r.ops.size(); ++i) {
      Op& op = *r.ops[i];
      for (const auto& inner : op.regions) run(*inner);
      if (is_loop(op)) i += hoist_before(r, i);
    }
    return moved_;
  }

 private:
  // Values made inside the loop, at any depth.
  static void collect(const Region& r, std::unordered_set<const Value*>& inside) {
    inside.insert(r.args.begin(), r.args.end());
    for (const auto& op : r.ops) {
      inside.insert(op->results.begin(), op->results.end());
      for (const auto& inner : op->regions) collect(*inner, inside);
    }
  }

  // The ops of one region of the loop that move, in order.
  static std::vector<const Op*> choose(const Region& r, std::unordered_set<const Value*>& inside) {
    std::vector<const Op*> invariant;
    for (const auto& op : r.ops) {
      const bool pure = op_info(op->id).effects == Effects::pure;
      if (!pure || std::ranges::any_of(op->operands, [&](const Value* v) { return inside.contains(v); })) continue;
      invariant.push_back(op.get());
      inside.erase(op->results[0]);
    }
    std::unordered_set<const Op*> moves;
    for (std::size_t i = invariant.size(); i-- > 0;) {
      const Op* op = invariant[i];
      if (is_cheap_to_remake(*op) && !moves.contains(op)) {
        inside.insert(op->results[0]);
        continue;
      }
      moves.insert(op);
      for (const Value* v : op->operands) {
        if (v->def != nullptr && v->def->parent == &r) moves.insert(v->def);
      }
    }
    std::erase_if(invariant, [&](const Op* op) { return !moves.contains(op); });
    return invariant;
  }

  std::size_t hoist_before(Region& r, std::size_t at) {
    std::unordered_set<const Value*> inside;
    for (const auto& body : r.ops[at]->regions) collect(*body, inside);
    std::size_t count = 0;
    for (std::size_t k = 0; k < r.ops[at + count]->regions.size(); ++k) {
      Region& body = *r.ops[at + count]->regions[k];
      for (const Op* op : choose(body, inside)) {
        const auto from = std::ranges::find_if(body.ops, [&](const auto& o) { return o.get() == op; });
        std::unique_ptr<Op> taken = std::move(*from);
        body.ops.erase(from);
        taken->parent = &r;
        r.ops.insert(r.ops.begin() + static_cast<std::ptrdiff_t>(at + count), std::move(taken));
        ++count;
      }
    }
    moved_ = moved_ || count != 0;
    return count;
  }

  bool moved_ = false;
};

}  // namespace

bool hoist_invariants(Function& f) { return Hoister().run(f.body()); }

}  // namespace tileweave::passes
