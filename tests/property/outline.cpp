// Moves runs of ops into functions. See outline.h.
// Used by calls_test.cpp alone.
#include "tests/property/outline.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tests/property/dice.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::property {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

// One run of ops [begin, end) of a body and what crosses its edge.
class Outliner {
 public:
  Outliner(ir::Function& f, std::size_t begin, std::size_t end) : f_(f), begin_(begin), end_(end) {}

  bool run(const std::string& name) {
    find_values();
    if (crosses_var_) return false;
    ir::Function callee(name);
    std::unordered_map<Value*, Value*> inside;
    for (Value* v : outer_) inside[v] = callee.add_param(v->type, "");
    auto& ops = f_.body().ops;
    for (std::size_t i = begin_; i < end_; ++i) {
      replace(*ops[i], inside);
      ops[i]->parent = &callee.body();
      callee.body().ops.push_back(std::move(ops[i]));
    }
    ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(begin_), ops.begin() + static_cast<std::ptrdiff_t>(end_));
    callee.body().ops.push_back(op(OpId::yield, results_, callee.body()));
    insert_call(name);
    f_.callees.push_back(callee.clone());  // with values of its own
    return true;
  }

 private:
  static std::unique_ptr<Op> op(OpId id, std::vector<Value*> operands, ir::Region& parent) {
    auto made = std::make_unique<Op>();
    made->id = id;
    made->operands = std::move(operands);
    made->parent = &parent;
    return made;
  }

  void find_values() {
    std::unordered_set<Value*> made;
    const auto see = [&](const Op& o) {
      for (Value* v : o.operands) {
        if (made.contains(v)) continue;
        if (v->def != nullptr && v->def->id == OpId::var) crosses_var_ = true;
        if (std::ranges::find(outer_, v) == outer_.end()) outer_.push_back(v);
      }
      for (Value* v : o.results) made.insert(v);
      for (const auto& r : o.regions) made.insert(r->args.begin(), r->args.end());
    };
    const auto& ops = f_.body().ops;
    for (std::size_t i = begin_; i < end_; ++i) visit(*ops[i], see);
    for (std::size_t i = end_; i < ops.size(); ++i) {
      visit(*ops[i], [&](const Op& o) {
        for (Value* v : o.operands) {
          if (!made.contains(v) || std::ranges::find(results_, v) != results_.end()) continue;
          if (v->def != nullptr && v->def->id == OpId::var) crosses_var_ = true;
          results_.push_back(v);
        }
      });
    }
  }

  template <class F>
  static void visit(const Op& o, const F& f) {
    f(o);
    for (const auto& r : o.regions) {
      for (const auto& inner : r->ops) visit(*inner, f);
    }
  }

  static void replace(Op& o, const std::unordered_map<Value*, Value*>& map) {
    for (Value*& v : o.operands) {
      if (const auto at = map.find(v); at != map.end()) v = at->second;
    }
    for (const auto& r : o.regions) {
      for (const auto& inner : r->ops) replace(*inner, map);
    }
  }

  void insert_call(const std::string& name) {
    auto call = op(OpId::call, outer_, f_.body());
    call->attrs.set(ir::AttrKey::name, name);
    std::unordered_map<Value*, Value*> after;
    for (Value* v : results_) {
      Value* result = f_.new_value(v->type);
      result->def = call.get();
      result->index = static_cast<int>(call->results.size());
      call->results.push_back(result);
      after[v] = result;
    }
    auto& ops = f_.body().ops;
    for (std::size_t i = begin_; i < ops.size(); ++i) replace(*ops[i], after);
    ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(begin_), std::move(call));
  }

  ir::Function& f_;
  std::size_t begin_, end_;
  std::vector<Value*> outer_, results_;
  bool crosses_var_ = false;
};

}  // namespace

Program outlined(const Program& from) {
  Program p;
  p.seed = from.seed;
  p.function = from.function.clone();
  p.arguments = from.arguments;
  p.grid = from.grid;
  Dice dice(p.seed + 77);
  for (int n = 1; n <= 4; ++n) {
    const std::size_t size = p.function.body().ops.size();
    if (size < 2) break;
    const std::size_t begin = dice.below(size), length = 1 + dice.below(size / 2);
    Outliner(p.function, begin, std::min(begin + length, size)).run("piece" + std::to_string(n));
  }
  p.function = p.function.clone();
  return p;
}

}  // namespace tileweave::property
