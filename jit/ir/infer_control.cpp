// Type rules of mutable tiles and control flow; what regions must hold is the verifier's.
// Called through infer.cpp by the builder and the verifier.
#include "tileweave/jit/ir/infer.h"

namespace tileweave::ir {
namespace {

void require_var(const OpShape& s) {
  if (s.operands[0]->def == nullptr || s.operands[0]->def->id != OpId::var)
    refuse(s, "its first operand must be a var");
}

std::vector<Type> types_of(std::span<Value* const> values) {
  std::vector<Type> types;
  for (const Value* v : values) types.push_back(v->type);
  return types;
}

void require_carryable(const OpShape& s, std::span<Value* const> values) {
  for (const Value* v : values) {
    if (v->type.is_view()) refuse(s, "cannot carry " + to_string(v->type) + ", only tiles and pointers");
  }
}

}  // namespace

std::vector<Type> infer_var(const OpShape& s) {
  require_operands(s, 1, 1);
  if (s.operands[0]->type.is_view()) refuse(s, "cannot hold " + to_string(s.operands[0]->type));
  return {s.operands[0]->type};
}

std::vector<Type> infer_var_get(const OpShape& s) {
  require_operands(s, 1, 1);
  require_var(s);
  return {s.operands[0]->type};
}

std::vector<Type> infer_var_set(const OpShape& s) {
  require_operands(s, 2, 2);
  require_var(s);
  const Type &var = s.operands[0]->type, &value = s.operands[1]->type;
  if (value != var) {
    refuse(s, "the variable is " + to_string(var) + ", the value " + to_string(value),
           "a tw::Var keeps the element type and extents of its initial value");
  }
  return {};
}

std::vector<Type> infer_for_(const OpShape& s) {
  require_operands(s, 3, SIZE_MAX);
  require_scalar_i64(s, s.operands[0], "the lower bound");
  require_scalar_i64(s, s.operands[1], "the upper bound");
  require_scalar_i64(s, s.operands[2], "the step");
  require_carryable(s, s.operands.subspan(3));
  return types_of(s.operands.subspan(3));
}

std::vector<Type> infer_if_(const OpShape& s) {
  require_operands(s, 1, 1);
  if (s.operands[0]->type != Type::scalar(Dtype::boolean)) {
    refuse(s, "the condition is " + to_string(s.operands[0]->type) + ", it must be a scalar bool",
           "reduce a tile with tw::any or tw::all, or select per lane with tw::where");
  }
  return {s.results.begin(), s.results.end()};
}

std::vector<Type> infer_while_(const OpShape& s) {
  require_carryable(s, s.operands);
  return types_of(s.operands);
}

// That the types are the callee's is for the verifier to say, which sees both.
std::vector<Type> infer_call(const OpShape& s) {
  if (s.attrs.get_text(AttrKey::name).empty()) refuse(s, "names no function");
  for (const Type& t : s.results) {
    if (t.is_view()) refuse(s, "cannot give " + to_string(t) + ", only tiles and pointers");
  }
  return {s.results.begin(), s.results.end()};
}

std::vector<Type> infer_yield(const OpShape& s) {
  require_carryable(s, s.operands);
  return {};
}

std::vector<Type> infer_condition(const OpShape& s) {
  require_operands(s, 1, SIZE_MAX);
  if (s.operands[0]->type != Type::scalar(Dtype::boolean)) {
    refuse(s, "a while's condition is " + to_string(s.operands[0]->type) + ", it must be a scalar bool",
           "reduce a tile with tw::any or tw::all");
  }
  require_carryable(s, s.operands.subspan(1));
  return {};
}

}  // namespace tileweave::ir
