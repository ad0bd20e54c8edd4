// Records reductions and dot: they skip invalid lanes, and keep what is known of the axes that remain.
// Behind reduce.h and dot.h.
#include <string>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

using ir::Combine;
using ir::OpId;
using ir::Value;

Combine combine_of(Reduction how) {
  switch (how) {
    case Reduction::sum:
      return Combine::sum;
    case Reduction::prod:
      return Combine::prod;
    case Reduction::min:
      return Combine::min;
    case Reduction::max:
      return Combine::max;
    case Reduction::fmin:
      return Combine::fmin;
    case Reduction::fmax:
      return Combine::fmax;
    case Reduction::any:
    case Reduction::bit_or:
      return Combine::bit_or;
    case Reduction::all:
    case Reduction::bit_and:
      return Combine::bit_and;
    case Reduction::bit_xor:
      return Combine::bit_xor;
  }
  return Combine::sum;
}

// The reduced value with what is left of the operand's validity; `keep_dims` puts the axis back with extent 1.
Raw reduced(Recorder& r, const Value* x, Value* mask, Value* result, int axis, bool keep_dims, const Place& p) {
  Value* rest = project_mask(r, mask, axis, p);
  if (!keep_dims) return r.wrap(result, rest);
  result = r.builder.expand_dims(result, axis, p);
  if (rest == nullptr) return r.wrap(result);
  rest = r.builder.expand_dims(rest, axis, p);
  // Back in the operand's shape it holds wherever the operand's own validity does.
  r.facts.implies(mask, broadcast_value(r, rest, x->type.shape(), p));
  return r.wrap(result, rest);
}

// A block's lanes outside the view are loaded as zero; a transposed one's, too.
bool is_zero_outside(const Value* v, const Value* mask) {
  if (v->def == nullptr || mask->def == nullptr) return false;
  const ir::Op &op = *v->def, &m = *mask->def;
  if (op.id == OpId::trans || op.id == OpId::reshape || op.id == OpId::expand_dims) {
    return m.id == op.id && op.attrs == m.attrs && is_zero_outside(op.operands[0], m.operands[0]);
  }
  return op.id == OpId::load && m.id == OpId::inside && op.operands == m.operands &&
         op.attrs.get_int(ir::AttrKey::pad) == 0;
}

}  // namespace

Value* zero_invalid(Recorder& r, const Raw& x, Value* v, const Place& p) {
  if (x.mask == nullptr || is_zero_outside(v, x.mask)) return v;
  return r.builder.elementwise(OpId::where, {x.mask, v, r.builder.constant_bits(v->type, 0, p)}, p);
}

int checked_axis(const Value* v, int axis, std::string_view what, const Place& p) {
  const int at = axis < 0 ? axis + v->type.rank : axis;
  if (at < 0 || at >= v->type.rank) {
    throw_record_error(
        p, std::string(what) + ": there is no axis " + std::to_string(axis) + " in " + ir::to_string(v->type));
  }
  return at;
}

Raw reduce(const Raw& x, int axis, Reduction how, bool keep_dims, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  const int at = checked_axis(v, axis, "reduction", p);
  return reduced(r, v, x.mask, r.builder.reduce(v, at, combine_of(how), x.mask, p), at, keep_dims, p);
}

Raw arg_reduce(const Raw& x, int axis, bool largest, bool keep_dims, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  const int at = checked_axis(v, axis, "reduction", p);
  Value* index = r.builder.arg_reduce(v, at, largest ? Combine::max : Combine::min, x.mask, p);
  return reduced(r, v, x.mask, index, at, keep_dims, p);
}

Raw dot(const Raw& a, const Raw& b, const Raw& acc, Dtype result, std::string_view precision, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* va = r.use(a, p);
  Value* vb = r.use(b, p);
  const int rank = va->type.rank;
  const auto m_axis = static_cast<std::size_t>(rank - 2), k_axis = static_cast<std::size_t>(rank - 1);
  if (va->type.extents[k_axis] != vb->type.extents[m_axis]) {
    throw_record_error(p,
                       "dot: inner extents differ: lhs " + ir::to_string(va->type) + " has " +
                           std::to_string(va->type.extents[k_axis]) + ", rhs " + ir::to_string(vb->type) + " has " +
                           std::to_string(vb->type.extents[m_axis]),
                       "load rhs as {k, n}, or pass tw::trans(rhs)",
                       {{vb->def != nullptr ? vb->def->place : Place(), "rhs was made here"}});
  }
  ir::Extents shape = va->type.shape();
  shape[k_axis] = vb->type.extents[k_axis];
  Value* mask = acc.mask;
  Value* start = nullptr;
  if (acc.value != nullptr) {
    start = r.use(acc, p);
    if (start->type.shape() != shape) {
      throw_record_error(
          p, "dot: the accumulator is " + ir::to_string(start->type) + ", lhs times rhs is " + shape_text(shape),
          "make it with tw::zeros of these extents");
    }
  } else {
    start = r.builder.constant_bits(ir::Type::tile(result, shape), 0, p);
    Value* rows = project_mask(r, a.mask, rank - 1, p);
    if (rows != nullptr) rows = broadcast_value(r, r.builder.expand_dims(rows, rank - 1, p), shape, p);
    Value* columns = project_mask(r, b.mask, rank - 2, p);
    if (columns != nullptr) columns = broadcast_value(r, r.builder.expand_dims(columns, rank - 2, p), shape, p);
    mask = both_valid(r, rows, columns, p);
  }
  va = zero_invalid(r, a, va, p);
  vb = zero_invalid(r, b, vb, p);
  return r.wrap(r.builder.dot(va, vb, start, precision, p), mask);
}

}  // namespace tileweave::record
