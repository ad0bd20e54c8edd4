// Records values: constants, element-wise ops with broadcasting, casts, shape ops; host values of ops.
// One step below expr.h: everything here is untyped and takes validity along.
#include <algorithm>
#include <bit>
#include <source_location>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::record {
namespace {

using ir::OpId;
using ir::Value;

ExtentSpan extents_of(const Value* v) { return {v->type.extents.data(), static_cast<std::size_t>(v->type.rank)}; }

// The shape all operands broadcast to; errors name the two that differ. As in NumPy a lower rank gets leading axes
// of 1.
ir::Extents join_shapes(std::span<Value* const> values, OpId op, const Place& p) {
  int rank = 0;
  for (const Value* v : values) rank = std::max<int>(rank, v->type.rank);
  ir::Extents all;
  for (const Value* v : values) {
    if (v->type.rank == 0) continue;
    ir::Extents e = v->type.shape();
    e.insert(e.begin(), static_cast<std::size_t>(rank - v->type.rank), 1);
    const Dtype t = v->type.elem;
    all = all.empty() ? e
                      : ir::Builder::broadcast_shape(ir::Type::tile(values[0]->type.elem, all), ir::Type::tile(t, e),
                                                     ir::op_info(op).name, p);
  }
  return all;
}

// `where(c, a, b)` is valid where c is and the branch taken is.
Value* where_mask(Recorder& r, Value* condition, Value* const masks[3], const Place& p) {
  Value *a = masks[1], *b = masks[2];
  Value* taken = a;
  if (a != b) {
    const ir::Type t = condition->type;
    Value* on = r.builder.constant_bits(t, 1, p);
    taken = r.builder.elementwise(OpId::where, {condition, a != nullptr ? a : on, b != nullptr ? b : on}, p);
  }
  return both_valid(r, masks[0], taken, p);
}

int checked_axis(int axis, int rank, std::string_view what, const Place& p) {
  if (axis < -rank || axis >= rank) {
    throw_record_error(p, std::string(what) + ": there is no axis " + std::to_string(axis) + " in a tile of rank " +
                              std::to_string(rank));
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace

bool fits(const Literal& v, Dtype t) {
  if (!is_int(t) || v.kind == Literal::Kind::boolean || v.kind == Literal::Kind::floating) return true;
  const int bits = dtype_info(t).bits;
  if (v.kind == Literal::Kind::unsigned_int) {
    const auto u = static_cast<std::uint64_t>(v.integer);
    return static_cast<int>(std::bit_width(u)) <= bits - (is_signed(t) ? 1 : 0);
  }
  if (is_unsigned(t)) return v.integer >= 0 && (v.integer >> (bits - 1) >> 1) == 0;
  return bits == 64 || (v.integer >= -(std::int64_t{1} << (bits - 1)) && v.integer < (std::int64_t{1} << (bits - 1)));
}

std::string to_string(const Literal& v) {
  if (v.kind == Literal::Kind::floating) return std::to_string(v.real);
  return v.kind == Literal::Kind::unsigned_int ? std::to_string(static_cast<std::uint64_t>(v.integer))
                                               : std::to_string(v.integer);
}

std::string shape_text(ExtentSpan extents) {
  std::string s = "{";
  for (std::size_t i = 0; i < extents.size(); ++i) s += (i == 0 ? "" : ", ") + std::to_string(extents[i]);
  return s + "}";
}

Value* broadcast_value(Recorder& r, Value* v, ExtentSpan extents, const Place& p) {
  if (std::ranges::equal(extents_of(v), extents)) return v;
  if (v->type.rank != 0) {
    while (v->type.rank < static_cast<int>(extents.size())) v = r.builder.expand_dims(v, 0, p);
    if (std::ranges::equal(extents_of(v), extents)) return v;
  }
  return r.builder.broadcast(v, extents, p);
}

Raw constant(const Literal& v, Dtype type, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  const ir::Type t = ir::Type::scalar(type);
  if (v.kind == Literal::Kind::floating) return r.wrap(r.builder.constant(t, v.real, p));
  if (!fits(v, type)) {
    throw_record_error(p, "the literal " + to_string(v) + " does not fit " + std::string(dtype_name(type)),
                       "convert the tile to a wider type with .to<T>()");
  }
  if (v.kind == Literal::Kind::unsigned_int && v.integer < 0 && is_float(type)) {
    return r.wrap(r.builder.constant(t, static_cast<double>(static_cast<std::uint64_t>(v.integer)), p));
  }
  return r.wrap(r.builder.constant(t, v.integer, p));
}

Raw elementwise(OpId op, std::span<const Raw> operands, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* values[3] = {};
  Value* masks[3] = {};
  const std::size_t n = operands.size();
  for (std::size_t i = 0; i < n; ++i) values[i] = r.use(operands[i], p);
  const ir::Extents shape = join_shapes({values, n}, op, p);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = broadcast_value(r, values[i], shape, p);
    masks[i] = broadcast_mask(r, operands[i].mask, shape, p);
  }
  Value* mask = masks[0];
  if (op == OpId::where) {
    mask = where_mask(r, values[0], masks, p);
  } else {
    for (std::size_t i = 1; i < n; ++i) mask = both_valid(r, mask, masks[i], p);
  }
  return r.wrap(r.builder.elementwise(op, std::span<Value* const>(values, n), p), mask);
}

Raw convert(const Raw& x, Dtype to, bool saturate, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  return r.wrap(r.builder.convert(r.use(x, p), to, p, saturate), x.mask);
}

Raw bitcast(const Raw& x, Dtype to, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  if (x.mask != nullptr) {
    v = r.builder.elementwise(OpId::where, {x.mask, v, r.builder.constant_bits(v->type, 0, p)}, p);
  }
  return r.wrap(r.builder.bitcast(v, to, p), x.mask);
}

Raw fill_like(const Raw& like, const Raw& scalar, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  return r.wrap(broadcast_value(r, r.use(scalar, p), extents_of(r.use(like, p)), p), like.mask);
}

Raw full(const Raw& scalar, ExtentSpan extents, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  for (const index_t e : extents) {
    if (e < 1) {
      throw_record_error(p, "a tile of extents " + shape_text(extents) + " has no lanes", "every extent is at least 1");
    }
  }
  return r.wrap(broadcast_value(r, r.use(scalar, p), extents, p), broadcast_mask(r, scalar.mask, extents, p));
}

Raw iota(index_t n, Dtype type, index_t start, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  if (n < 1)
    throw_record_error(p, "arange: a tile of " + std::to_string(n) + " lanes", "the end must be past the start");
  return r.wrap(r.builder.iota(n, type, start, p));
}

Raw valid(const Raw& x, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  return r.wrap(x.mask != nullptr ? x.mask : r.builder.constant_bits(v->type.with_elem(Dtype::boolean), 1, p));
}

std::vector<index_t> shape(const Raw& x, const Place& place) {
  Recorder& r = current(place);
  return r.use(x, place.known() ? place : r.last)->type.shape();
}

Raw expand(const Raw& x, int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  const int at = checked_axis(axis, v->type.rank + 1, "expand", p);
  Value* mask = nullptr;
  if (x.mask != nullptr) mask = r.builder.expand_dims(x.mask, at, p);
  return r.wrap(r.builder.expand_dims(v, at, p), mask);
}

Raw reshape(const Raw& x, ExtentSpan extents, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.builder.reshape(r.use(x, p), extents, p);
  return r.wrap(v, x.mask != nullptr ? r.builder.reshape(x.mask, extents, p) : nullptr);
}

Raw transpose(const Raw& x, std::span<const int> perm, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.builder.trans(r.use(x, p), perm, p);
  return r.wrap(v, x.mask != nullptr ? r.builder.trans(x.mask, perm, p) : nullptr);
}

Raw broadcast(const Raw& x, ExtentSpan extents, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  const ir::Type target = ir::Type::tile(v->type.elem, extents);
  ir::Type from = v->type;
  if (from.rank > 0 && from.rank < target.rank) {
    ir::Extents e = from.shape();
    e.insert(e.begin(), static_cast<std::size_t>(target.rank - from.rank), 1);
    from = ir::Type::tile(from.elem, e);
  }
  if (ir::Builder::broadcast_shape(from, target, "broadcast", p) != target.shape()) {
    throw_record_error(p, "broadcast: " + ir::to_string(v->type) + " does not grow to " + shape_text(extents),
                       "only axes of extent 1 grow");
  }
  return r.wrap(broadcast_value(r, v, extents, p), broadcast_mask(r, x.mask, extents, p));
}

HostLane host_lane(OpId op, Dtype type) {
  if (const HostLane f = ir::host::lane_function(op, type)) return f;
  throw_internal_error(std::source_location::current(),
                       std::string(ir::op_info(op).name) + " has no host value at " + std::string(dtype_name(type)));
}

std::uint64_t host_convert(std::uint64_t bits, Dtype from, Dtype to, bool saturate) {
  return ir::host::convert_bits(bits, from, to, saturate);
}

}  // namespace tileweave::record
