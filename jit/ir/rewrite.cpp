// The walk all passes share.
// Each pass runs it once over the whole function, from passes/<name>.cpp.
#include "tileweave/jit/ir/rewrite.h"

#include <source_location>

#include "tileweave/jit/base/error.h"

namespace tileweave::ir {

Rewriter::Rewriter(const Function& from) : to_(from.name), builder_(to_), from_(from) {
  to_.place = from.place;
  to_.options = from.options;
  for (const Function& callee : from.callees) to_.callees.push_back(callee.clone());
  for (const Param& p : from.params) {
    Value* v = to_.add_param(p.value->type, p.value->name);
    to_.params.back().facts = p.facts;
    to_.params.back().constant = p.constant;
    map_[p.value] = v;
  }
}

Function Rewriter::run(const Handler& handler) {
  handler_ = &handler;
  rewrite_ops(from_.body());
  return std::move(to_);
}

Value* Rewriter::map(const Value* old) const {
  const auto at = map_.find(old);
  if (at == map_.end()) throw_internal_error(std::source_location::current(), "a value is used before it is rebuilt");
  return at->second;
}

std::vector<Value*> Rewriter::map(std::span<Value* const> old) const {
  std::vector<Value*> now;
  now.reserve(old.size());
  for (const Value* v : old) now.push_back(map(v));
  return now;
}

void Rewriter::replace(const Value* old, Value* now) {
  map_[old] = now;
  if (now->name.empty()) now->name = old->name;
}

void Rewriter::rewrite(const Op& op) {
  if (!(*handler_)(*this, op)) copy(op);
}

void Rewriter::rewrite_ops(const Region& r) {
  for (const auto& op : r.ops) rewrite(*op);
}

const Op& Rewriter::rewrite_body(const Region& r) {
  for (std::size_t i = 0; i + 1 < r.ops.size(); ++i) rewrite(*r.ops[i]);
  return *r.ops.back();
}

void Rewriter::copy(const Op& op) {
  std::vector<Value*> operands = map(op.operands);
  if (op_info(op.id).effects == Effects::pure) {
    return replace(op.results[0], builder_.remake(op, operands, op.place));
  }
  std::vector<Type> types;
  for (const Value* v : op.results) types.push_back(v->type);
  Op* made = builder_.insert(op.id, std::move(operands), op.attrs, std::move(types), op.place);
  for (const auto& r : op.regions) {
    std::vector<Type> args;
    for (const Value* v : r->args) args.push_back(v->type);
    Region* region = builder_.add_region(made, std::move(args));
    for (std::size_t i = 0; i < r->args.size(); ++i) replace(r->args[i], region->args[i]);
    builder_.enter(region);
    rewrite_ops(*r);
    builder_.leave();
  }
  for (std::size_t i = 0; i < op.results.size(); ++i) replace(op.results[i], made->results[i]);
}

void for_each_op(const Region& r, const std::function<void(const Op&)>& visit) {
  for (const auto& op : r.ops) {
    visit(*op);
    for (const auto& inner : op->regions) for_each_op(std::as_const(*inner), visit);
  }
}

void for_each_op(Region& r, const std::function<void(Op&)>& visit) {
  for (const auto& op : r.ops) {
    visit(*op);
    for (const auto& inner : op->regions) for_each_op(*inner, visit);
  }
}

std::unordered_map<const Value*, int> count_uses(const Function& f) {
  std::unordered_map<const Value*, int> uses;
  for_each_op(f.body(), [&](const Op& op) {
    for (const Value* v : op.operands) ++uses[v];
  });
  return uses;
}

}  // namespace tileweave::ir
