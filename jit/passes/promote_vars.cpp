// Mutable tiles become values: loops, ifs and whiles carry the vars that they set (mem2reg over structured control).
// First pass after recording; everything after it sees pure dataflow.
#include <algorithm>
#include <unordered_set>

#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

class Promoter {
 public:
  bool handle(Rewriter& w, const Op& op) {
    switch (op.id) {
      case OpId::var:
        order_.push_back(op.results[0]);
        now_[op.results[0]] = w.map(op.operands[0]);
        return true;
      case OpId::var_get:
        w.replace(op.results[0], now_.at(op.operands[0]));
        return true;
      case OpId::var_set:
        now_[op.operands[0]] = w.map(op.operands[1]);
        return true;
      case OpId::for_:
        promote_for(w, op);
        return true;
      case OpId::if_:
        promote_if(w, op);
        return true;
      case OpId::while_:
        promote_while(w, op);
        return true;
      default:
        return false;
    }
  }

 private:
  using Vars = std::vector<const Value*>;

  // The vars made before `op` that it sets, in the order they were made.
  Vars set_by(const Op& op) const {
    std::unordered_set<const Value*> set;
    for (const auto& r : op.regions) {
      for_each_op(std::as_const(*r), [&](const Op& inner) {
        if (inner.id == OpId::var_set) set.insert(inner.operands[0]);
      });
    }
    Vars vars;
    std::copy_if(order_.begin(), order_.end(), std::back_inserter(vars), [&](auto* v) { return set.contains(v); });
    return vars;
  }

  std::vector<Value*> values_now(const Vars& vars) const {
    std::vector<Value*> values;
    for (const Value* v : vars) values.push_back(now_.at(v));
    return values;
  }

  static std::vector<Type> types_of(std::span<Value* const> values) {
    std::vector<Type> types;
    for (const Value* v : values) types.push_back(v->type);
    return types;
  }

  static void append(std::vector<Value*>& to, const std::vector<Value*>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  // Rebuilds a region whose arguments are the old ones, then the vars; its terminator hands on the vars' values.
  void promote_region(Rewriter& w, Op* made, const Region& old, const Vars& vars, bool takes_vars) {
    std::vector<Type> args = types_of(old.args);
    if (takes_vars) {
      for (const Value* v : vars) args.push_back(v->type);
    }
    Region* r = w.builder().add_region(made, std::move(args));
    for (std::size_t i = 0; i < old.args.size(); ++i) w.replace(old.args[i], r->args[i]);
    for (std::size_t i = 0; takes_vars && i < vars.size(); ++i) {
      Value* arg = r->args[old.args.size() + i];
      arg->name = vars[i]->name;
      now_[vars[i]] = arg;
    }
    w.builder().enter(r);
    const std::size_t made_before = order_.size();
    const Op& end = w.rewrite_body(old);
    std::vector<Value*> given = w.map(end.operands);
    append(given, values_now(vars));
    w.builder().insert(end.id, std::move(given), end.attrs, {}, end.place);
    w.builder().leave();
    order_.resize(made_before);
  }

  void finish(Rewriter& w, const Op& op, Op* made, const Vars& vars) {
    for (std::size_t i = 0; i < op.results.size(); ++i) w.replace(op.results[i], made->results[i]);
    for (std::size_t i = 0; i < vars.size(); ++i) {
      Value* result = made->results[op.results.size() + i];
      result->name = vars[i]->name;
      now_[vars[i]] = result;
    }
  }

  void promote_for(Rewriter& w, const Op& op) {
    const Vars vars = set_by(op);
    std::vector<Value*> operands = w.map(op.operands);
    append(operands, values_now(vars));
    Op* made = w.builder().insert(op.id, std::move(operands), op.attrs, {}, op.place);
    promote_region(w, made, *op.regions[0], vars, true);
    finish(w, op, made, vars);
  }

  void promote_if(Rewriter& w, const Op& op) {
    const Vars vars = set_by(op);
    std::vector<Type> types = types_of(op.results);
    for (const Value* v : vars) types.push_back(v->type);
    Op* made = w.builder().insert(op.id, w.map(op.operands), op.attrs, std::move(types), op.place);
    const auto before = now_;
    for (const auto& r : op.regions) {
      now_ = before;
      promote_region(w, made, *r, vars, false);
    }
    finish(w, op, made, vars);
  }

  void promote_while(Rewriter& w, const Op& op) {
    const Vars vars = set_by(op);
    std::vector<Value*> operands = w.map(op.operands);
    append(operands, values_now(vars));
    Op* made = w.builder().insert(op.id, std::move(operands), op.attrs, {}, op.place);
    for (const auto& r : op.regions) promote_region(w, made, *r, vars, true);
    finish(w, op, made, vars);
  }

  std::unordered_map<const Value*, Value*> now_;  // each var's value at this point of the walk
  Vars order_;
};

}  // namespace

void promote_vars(Function& f) {
  Promoter promoter;
  f = Rewriter(f).run([&](Rewriter& w, const Op& op) { return promoter.handle(w, op); });
}

}  // namespace tileweave::passes
