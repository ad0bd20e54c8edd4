// Finds what is alive by a worklist from the stores, and erases the rest in place.
// Used by canonicalize.
#include "tileweave/jit/passes/dead_values.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::passes {
namespace {

using namespace ir;

// Whether the op hands values through its regions, one by one.
bool carries(const Op& op) { return op.id == OpId::for_ || op.id == OpId::while_ || op.id == OpId::if_; }
bool is_terminator(const Op& op) { return op.id == OpId::yield || op.id == OpId::condition; }

class Liveness {
 public:
  explicit Liveness(const Function& f) {
    scan(f.body());
    while (!work_.empty()) {
      const Value* v = work_.back();
      work_.pop_back();
      follow(v);
    }
  }

  bool is_live(const Value* v) const { return values_.contains(v); }
  bool is_live(const Op* op) const { return ops_.contains(op); }

  // Whether carried value `i` of a loop or result `i` of an if is needed.
  bool is_carried_live(const Op& op, std::size_t i) const {
    if (is_live(op.results[i])) return true;
    const std::size_t skip = op.id == OpId::for_ ? 1 : 0;
    if (op.id == OpId::if_) return false;
    return std::ranges::any_of(op.regions, [&](const auto& r) { return is_live(r->args[i + skip]); });
  }

 private:
  // Effects, and all that surrounds them.
  void scan(const Region& r) {
    for (const auto& op : r.ops) {
      const Effects e = op_info(op->id).effects;
      if (e == Effects::writes || e == Effects::host || op->id == OpId::var_set) need(op.get());
      for (const auto& inner : op->regions) scan(*inner);
    }
  }

  void need(const Op* op) {
    if (!ops_.insert(op).second) return;
    if (op->parent->parent != nullptr) need(op->parent->parent);
    if (is_terminator(*op)) return;
    switch (op->id) {
      case OpId::for_:
        for (std::size_t i = 0; i < 3; ++i) need(op->operands[i]);
        break;
      case OpId::while_:
        need(op->regions[0]->ops.back()->operands[0]);
        break;
      case OpId::scan:
      case OpId::fold:
        for (const Value* v : op->regions[0]->ops.back()->operands) need(v);
        [[fallthrough]];
      default:
        for (const Value* v : op->operands) need(v);
    }
    for (const auto& r : op->regions) ops_.insert(r->ops.back().get());
  }

  void need(const Value* v) {
    if (values_.insert(v).second) work_.push_back(v);
  }

  void follow(const Value* v) {
    if (v->def != nullptr) {
      need(v->def);
      follow_result(*v->def, static_cast<std::size_t>(v->index));
    } else if (v->region != nullptr && v->region->parent != nullptr) {
      const Op& op = *v->region->parent;
      need(&op);
      const auto i = static_cast<std::size_t>(v->index);
      if (op.id == OpId::for_ && i > 0) carry(op, i - 1);
      if (op.id == OpId::while_) carry(op, i);
    }
  }

  void follow_result(const Op& op, std::size_t i) {
    if (op.id == OpId::for_ || op.id == OpId::while_) carry(op, i);
    if (op.id != OpId::if_) return;
    for (const auto& r : op.regions) need(r->ops.back()->operands[i]);
  }

  // All that a loop's carried value i depends on: where it starts and what each round hands on.
  void carry(const Op& op, std::size_t i) {
    if (op.id == OpId::for_) {
      need(op.operands[3 + i]);
      need(op.regions[0]->ops.back()->operands[i]);
    } else {
      need(op.operands[i]);
      need(op.regions[0]->ops.back()->operands[1 + i]);
      need(op.regions[1]->ops.back()->operands[i]);
    }
  }

  std::unordered_set<const Value*> values_;
  std::unordered_set<const Op*> ops_;
  std::vector<const Value*> work_;
};

class Eraser {
 public:
  explicit Eraser(const Liveness& live) : live_(live) {}

  bool run(Region& r) {
    const std::size_t before = r.ops.size();
    std::erase_if(r.ops, [&](const auto& op) { return !is_terminator(*op) && !live_.is_live(op.get()); });
    erased_ = erased_ || r.ops.size() != before;
    for (const auto& op : r.ops) {
      if (carries(*op)) prune(*op);
      for (const auto& inner : op->regions) run(*inner);
    }
    return erased_;
  }

 private:
  template <class T>
  static void drop(std::vector<T*>& list, std::size_t i) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void prune(Op& op) {
    for (std::size_t i = op.results.size(); i-- > 0;) {
      if (live_.is_carried_live(op, i)) continue;
      erased_ = true;
      drop(op.results, i);
      if (op.id == OpId::for_) drop(op.operands, 3 + i);
      if (op.id == OpId::while_) drop(op.operands, i);
      for (const auto& r : op.regions) {
        Op& end = *r->ops.back();
        drop(end.operands, i + (end.id == OpId::condition ? 1 : 0));
        if (op.id != OpId::if_) drop(r->args, i + (op.id == OpId::for_ ? 1 : 0));
      }
    }
    number(op.results);
    for (const auto& r : op.regions) number(r->args);
  }

  static void number(const std::vector<Value*>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i]->index = static_cast<int>(i);
  }

  const Liveness& live_;
  bool erased_ = false;
};

}  // namespace

bool erase_dead(Function& f) {
  const Liveness live(f);
  return Eraser(live).run(f.body());
}

}  // namespace tileweave::passes
