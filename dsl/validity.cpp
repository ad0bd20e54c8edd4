// The rules by which validity travels: conjunction, broadcasting, and what a reduction leaves of it.
// Used by every file record_*.cpp; masks are explicit bool tiles in the IR.
#include "tileweave/dsl/recorder.h"

namespace tileweave::record {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

bool is_op(const Value* v, OpId id) { return v->def != nullptr && v->def->id == id; }

// Which positions of the block lie inside the view along `axis`: bool[extents[axis]], or null for an axis of one lane,
// whose validity is the block's own.
Value* edge(Recorder& r, const Op& inside, int axis, const Place& p) {
  const index_t n = inside.results[0]->type.extents[static_cast<std::size_t>(axis)];
  if (n == 1) return nullptr;
  ir::Builder& b = r.builder;
  Value* view = inside.operands[0];
  Value* offset = inside.operands[static_cast<std::size_t>(axis) + 1];
  Value* position = b.elementwise(OpId::add, {b.iota(n, Dtype::i64, 0, p), offset}, p);
  Value* low = b.elementwise(OpId::ge, {position, b.index(0)}, p);
  Value* high = b.elementwise(OpId::lt, {position, b.extent(view, axis, p)}, p);
  return b.elementwise(OpId::bit_and, {low, high}, p);
}

ir::Extents without(const ir::Type& t, int axis) {
  ir::Extents e = t.shape();
  e.erase(e.begin() + axis);
  return e;
}

// The conjunction of the remaining axes' edges, in the shape without `axis`.
Value* project_inside(Recorder& r, const Op& inside, int axis, const Place& p) {
  const ir::Type& t = inside.results[0]->type;
  const ir::Extents shape = without(t, axis);
  Value* all = nullptr;
  for (int a = 0, at = 0; a < t.rank; ++a) {
    if (a == axis) continue;
    if (Value* e = edge(r, inside, a, p)) {
      for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
        if (k != at) e = r.builder.expand_dims(e, k, p);
      }
      all = both_valid(r, all, r.builder.broadcast(e, shape, p), p);
    }
    ++at;
  }
  return all;
}

}  // namespace

Value* both_valid(Recorder& r, Value* a, Value* b, const Place& p) {
  if (a == nullptr || r.facts.does_imply(b, a)) return b;
  if (b == nullptr || r.facts.does_imply(a, b)) return a;
  Value* both = r.builder.elementwise(OpId::bit_and, {a, b}, p);
  r.facts.implies(both, a);
  r.facts.implies(both, b);
  return both;
}

Value* broadcast_mask(Recorder& r, Value* mask, ExtentSpan extents, const Place& p) {
  return mask == nullptr ? nullptr : broadcast_value(r, mask, extents, p);
}

Value* project_mask(Recorder& r, Value* mask, int axis, const Place& p) {
  if (mask == nullptr || mask->def == nullptr) return nullptr;
  const Op& op = *mask->def;
  if (op.id == OpId::inside) return project_inside(r, op, axis, p);
  if (op.id == OpId::bit_and) {
    return both_valid(r, project_mask(r, op.operands[0], axis, p), project_mask(r, op.operands[1], axis, p), p);
  }
  if (op.id == OpId::trans) {
    const auto& perm = op.attrs.get_list(ir::AttrKey::perm);
    const int source = static_cast<int>(perm[static_cast<std::size_t>(axis)]);
    Value* rest = project_mask(r, op.operands[0], source, p);
    if (rest == nullptr || rest->type.rank < 2) return rest;
    std::vector<int> left;
    for (std::size_t i = 0; i < perm.size(); ++i) {
      if (static_cast<int>(i) != axis) left.push_back(static_cast<int>(perm[i] - (perm[i] > source ? 1 : 0)));
    }
    return r.builder.trans(rest, left, p);
  }
  if (op.id == OpId::expand_dims && op.attrs.get_int(ir::AttrKey::axis) == axis) return op.operands[0];
  if (op.id == OpId::broadcast && op.operands[0]->type.rank == mask->type.rank) {
    Value* source = op.operands[0];
    const ir::Extents shape = without(mask->type, axis);
    if (source->type.extents[static_cast<std::size_t>(axis)] == 1 && is_op(source, OpId::expand_dims) &&
        source->def->attrs.get_int(ir::AttrKey::axis) == axis) {
      return broadcast_value(r, source->def->operands[0], shape, p);
    }
    Value* rest = project_mask(r, source, axis, p);
    return rest == nullptr ? nullptr : broadcast_value(r, rest, shape, p);
  }
  return nullptr;
}

}  // namespace tileweave::record
