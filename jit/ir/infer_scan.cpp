// Type and shape rules of scan and fold, the ops that combine lanes with a region of the user's.
// Part of infer.h's dispatch; what may stand in the region is checked by the recorder and by verify.
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/infer.h"

namespace tileweave::ir {
namespace {

// The values, all of one shape, without the mask.
std::span<Value* const> require_values(const OpShape& s) {
  const bool masked = s.attrs.get_int(AttrKey::masked) != 0;
  require_operands(s, masked ? 2 : 1, max_combined + (masked ? 1 : 0));
  const auto values = s.operands.first(s.operands.size() - (masked ? 1 : 0));
  for (const Value* v : values) require_tile(s, v, "operand");
  const Type& x = values[0]->type;
  for (const Value* v : values) {
    if (v->type.rank == x.rank && v->type.extents == x.extents) continue;
    refuse(s, "extents differ: " + to_string(x) + ", " + to_string(v->type),
           "tiles that are combined together have the same extents");
  }
  if (masked) require_mask(s, s.operands.back(), x);
  return values;
}

}  // namespace

bool is_combine_op(const Op& op) {
  const bool arithmetic = is_elementwise(op.id) || op.id == OpId::constant || op.id == OpId::convert ||
                          op.id == OpId::bitcast || op.id == OpId::reshape || op.id == OpId::broadcast;
  if (!arithmetic) return false;
  for (const Value* v : op.operands) {
    if (!v->type.is_tile() || v->type.rank != 0) return false;
  }
  return op.results.size() == 1 && op.results[0]->type.is_tile() && op.results[0]->type.rank == 0;
}

std::vector<Type> infer_scan(const OpShape& s) {
  const auto values = require_values(s);
  require_axis(s, values[0]->type.rank);
  std::vector<Type> types;
  for (const Value* v : values) types.push_back(v->type);
  return types;
}

std::vector<Type> infer_fold(const OpShape& s) {
  std::vector<Type> types = infer_scan(s);
  for (Type& t : types) {
    Extents e = t.shape();
    e.erase(e.begin() + s.attrs.get_int(AttrKey::axis));
    t = t.with_shape(e);
  }
  return types;
}

}  // namespace tileweave::ir
