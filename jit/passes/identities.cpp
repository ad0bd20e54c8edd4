// Identities that are exact for every input. A NaN stays a NaN; its payload and sign are not promised.
// Used by canonicalize alone.
#include "tileweave/jit/passes/identities.h"

#include <bit>
#include <cmath>

#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::passes {

using namespace ir;

namespace {

const Op* made_by(const Value* v, OpId id) { return v->def != nullptr && v->def->id == id ? v->def : nullptr; }

bool is_constant(const Value* v) { return constant_of(v).has_value(); }

bool is_int_constant(const Value* v, std::int64_t n) { return constant_of(v) == host::from_int(n, v->type.elem); }

// Bit for bit: +0 is not -0.
bool is_float_constant(const Value* v, double x) { return constant_of(v) == host::from_double(x, v->type.elem); }

// Computing in an fp8 type turns an infinity into the largest finite value, so x * 1 is not x there.
bool keeps_every_value(Dtype t) { return t != Dtype::f8e5m2 && t != Dtype::f8e4m3; }

int value_bits(Dtype t) {
  if (is_bool(t)) return 1;
  return dtype_info(t).bits - (is_signed(t) ? 1 : 0);
}

struct Precision {
  int digits, min_exponent, max_exponent;
};
Precision precision_of(Dtype t) {
  return visit_dtype(t, [](auto tag) -> Precision {
    using L = std::numeric_limits<typename decltype(tag)::type>;
    return {L::digits, L::min_exponent - L::digits, L::max_exponent};
  });
}

// 1 / c where that is exact: c is a power of two whose reciprocal is a normal number.
std::optional<double> exact_reciprocal(const Value* v) {
  const auto bits = constant_of(v);
  if (!bits) return std::nullopt;
  const double c = host::to_double(*bits, v->type.elem);
  int exponent = 0;
  if (!std::isfinite(c) || std::fabs(std::frexp(c, &exponent)) != 0.5) return std::nullopt;
  const double reciprocal = 1 / c, magnitude = std::fabs(reciprocal);
  const bool f32 = v->type.elem == Dtype::f32;
  const bool normal = magnitude >= (f32 ? 0x1p-126 : 0x1p-1022) && magnitude <= (f32 ? 0x1p127 : 0x1p1023);
  return normal ? std::optional(reciprocal) : std::nullopt;
}

std::optional<OpId> opposite(OpId id) {
  switch (id) {
    case OpId::eq:
      return OpId::ne;
    case OpId::ne:
      return OpId::eq;
    case OpId::lt:
      return OpId::ge;
    case OpId::ge:
      return OpId::lt;
    case OpId::gt:
      return OpId::le;
    case OpId::le:
      return OpId::gt;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool represents(Dtype to, Dtype from) {
  if (to == from || is_bool(from)) return true;
  if (is_bool(to)) return false;
  if (is_int(from) && is_int(to)) return value_bits(to) >= value_bits(from) && (is_signed(to) || !is_signed(from));
  if (is_int(from))
    return precision_of(to).digits >= value_bits(from) && precision_of(to).max_exponent > value_bits(from);
  if (is_int(to)) return false;
  const Precision a = precision_of(from), b = precision_of(to);
  const bool infinity = from == Dtype::f8e4m3 || (to != Dtype::f8e4m3 && to != Dtype::f8e5m2);
  return infinity && b.digits >= a.digits && b.min_exponent <= a.min_exponent && b.max_exponent >= a.max_exponent;
}

Value* Identities::simplify(const Op& op, std::vector<Value*>& v) {
  place_ = op.place;
  if (is_elementwise(op.id)) return elementwise(op, v);
  switch (op.id) {
    case OpId::convert:
    case OpId::bitcast:
      return convert(op, v[0]);
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::reshape:
    case OpId::trans:
      return shape(op, v[0]);
    case OpId::reduce:
    case OpId::arg_reduce:
      return reduce(op, v);
    default:
      return nullptr;
  }
}

// --- element-wise

Value* Identities::elementwise(const Op& op, Operands& v) {
  order(op.id, v);
  if (Value* r = sink_broadcast(op, v)) return r;
  if (op.id == OpId::where) return select(v);
  if (Value* r = involution(op.id, v)) return r;
  if (v.size() == 2 && v[0] == v[1]) {
    if (Value* r = equal_operands(op.id, v)) return r;
  }
  const Dtype t = v[0]->type.elem;
  if (op_info(op.id).types == OpTypes::Compare) return is_bool(t) ? compare(op.id, v) : nullptr;
  if (v.size() < 2) return nullptr;
  if (is_bool(t)) return boolean(op.id, v);
  return is_int(t) ? integer(op.id, v) : floating(op.id, v);
}

// A commutative op's constant stands last, other operands in the order in which they were met.
void Identities::order(OpId id, Operands& v) {
  for (const Value* x : v) rank(x);
  if ((op_info(id).algebra & algebra::commutative) == 0) return;
  const bool swap = is_constant(v[0]) != is_constant(v[1]) ? is_constant(v[0]) : rank(v[0]) > rank(v[1]);
  if (swap) std::swap(v[0], v[1]);
}

// An op on values that were all broadcast from one shape, or from scalars, is done in that shape.
Value* Identities::sink_broadcast(const Op& op, const Operands& v) {
  const Type* small = nullptr;  // the largest shape that something was broadcast from
  for (const Value* x : v) {
    if (const Op* d = made_by(x, OpId::broadcast)) {
      const Type& t = d->operands[0]->type;
      const bool differ = small != nullptr && (small->rank != t.rank || small->extents != t.extents);
      if (differ && small->rank != 0 && t.rank != 0) return nullptr;
      if (small == nullptr || small->rank == 0) small = &t;
    } else if (!is_constant(x)) {
      return nullptr;
    }
  }
  if (small == nullptr) return nullptr;
  Operands inner;
  for (Value* x : v) {
    const auto c = constant_of(x);
    inner.push_back(c ? b_.constant_bits(small->with_elem(x->type.elem), *c, place_) : x->def->operands[0]);
  }
  return b_.broadcast(b_.elementwise(op.id, inner, place_), v[0]->type.shape(), place_);
}

Value* Identities::select(const Operands& v) {
  if (v[1] == v[2]) return v[1];
  if (const auto c = constant_of(v[0])) return *c != 0 ? v[1] : v[2];
  if (const Op* d = made_by(v[0], OpId::bit_not)) {
    return b_.elementwise(OpId::where, {d->operands[0], v[2], v[1]}, place_);
  }
  if (!is_bool(v[1]->type.elem)) return nullptr;
  const auto yes = constant_of(v[1]), no = constant_of(v[2]);
  if (yes && no) return *yes != 0 ? v[0] : b_.elementwise(OpId::bit_not, {v[0]}, place_);
  if (no && *no == 0) return b_.elementwise(OpId::bit_and, {v[0], v[1]}, place_);
  if (yes && *yes != 0) return b_.elementwise(OpId::bit_or, {v[0], v[2]}, place_);
  return nullptr;
}

Value* Identities::involution(OpId id, const Operands& v) {
  if (id == OpId::bit_not) {
    if (const Op* d = made_by(v[0], OpId::bit_not)) return d->operands[0];
    const Op* d = v[0]->def;
    const auto other = d != nullptr ? opposite(d->id) : std::nullopt;
    // not (a < b) is a >= b unless there are NaNs.
    const bool exact = other && (!is_float(d->operands[0]->type.elem) || d->id == OpId::eq || d->id == OpId::ne);
    return exact ? b_.elementwise(*other, d->operands, place_) : nullptr;
  }
  if (id == OpId::neg && keeps_every_value(v[0]->type.elem)) {
    const Op* d = made_by(v[0], OpId::neg);
    return d != nullptr ? d->operands[0] : nullptr;
  }
  return nullptr;
}

Value* Identities::equal_operands(OpId id, const Operands& v) {
  const Dtype t = v[0]->type.elem;
  const Type result = op_info(id).types == OpTypes::Compare ? v[0]->type.with_elem(Dtype::boolean) : v[0]->type;
  const auto constant = [&](std::int64_t n) { return b_.constant(result, n, place_); };
  switch (id) {
    case OpId::minimum:
    case OpId::maximum:
    case OpId::fmin:
    case OpId::fmax:
      return keeps_every_value(t) ? v[0] : nullptr;
    case OpId::bit_and:
    case OpId::bit_or:
      return v[0];
    case OpId::bit_xor:
      return constant(0);
    case OpId::sub:
      return is_int(t) ? constant(0) : nullptr;
    case OpId::lt:
    case OpId::gt:
      return constant(0);
    case OpId::ne:
      return is_float(t) ? nullptr : constant(0);
    case OpId::eq:
    case OpId::le:
    case OpId::ge:
      return is_float(t) ? nullptr : constant(1);
    default:
      return nullptr;
  }
}

Value* Identities::compare(OpId id, const Operands& v) {
  const auto c = constant_of(v[1]);
  if (!c || (id != OpId::eq && id != OpId::ne)) return nullptr;
  return (id == OpId::eq) == (*c != 0) ? v[0] : b_.elementwise(OpId::bit_not, {v[0]}, place_);
}

Value* Identities::boolean(OpId id, const Operands& v) {
  const auto c = constant_of(v[1]);
  if (!c) return nullptr;
  const bool is_true = *c != 0;
  if (id == OpId::bit_and) return is_true ? v[0] : v[1];
  if (id == OpId::bit_or) return is_true ? v[1] : v[0];
  if (id == OpId::bit_xor) return is_true ? b_.elementwise(OpId::bit_not, {v[0]}, place_) : v[0];
  return nullptr;
}

Value* Identities::integer(OpId id, const Operands& v) {
  const bool zero = is_int_constant(v[1], 0), one = is_int_constant(v[1], 1);
  switch (id) {
    case OpId::add:
    case OpId::mul:
      if (id == OpId::add ? zero : one) return v[0];
      if (id == OpId::mul && zero) return v[1];
      // (x op c) op d = x op (c op d): integers wrap, so the order does not matter.
      if (const Op* d = made_by(v[0], id); d != nullptr && is_constant(v[1]) && is_constant(d->operands[1])) {
        return b_.elementwise(id, {d->operands[0], b_.elementwise(id, {d->operands[1], v[1]}, place_)}, place_);
      }
      return nullptr;
    case OpId::sub:
      if (zero) return v[0];
      if (is_constant(v[1])) {
        return b_.elementwise(OpId::add, {v[0], b_.elementwise(OpId::neg, {v[1]}, place_)}, place_);
      }
      return nullptr;
    case OpId::div:
    case OpId::floor_div:
    case OpId::cdiv:
      return one ? v[0] : nullptr;
    case OpId::rem:
    case OpId::floor_mod:
      return one ? b_.constant(v[0]->type, std::int64_t{0}, place_) : nullptr;
    case OpId::bit_or:
    case OpId::bit_xor:
    case OpId::shl:
    case OpId::shr:
      return zero ? v[0] : nullptr;
    case OpId::bit_and:
      if (zero) return v[1];
      return is_int_constant(v[1], -1) ? v[0] : nullptr;
    default:
      return nullptr;
  }
}

Value* Identities::floating(OpId id, const Operands& v) {
  const Dtype t = v[0]->type.elem;
  if (!keeps_every_value(t)) return nullptr;
  switch (id) {
    case OpId::add:  // x + +0 turns -0 into +0
      return is_float_constant(v[1], -0.0) ? v[0] : nullptr;
    case OpId::sub:
      return is_float_constant(v[1], 0.0) ? v[0] : nullptr;
    case OpId::mul:
      if (is_float_constant(v[1], 1.0)) return v[0];
      return is_float_constant(v[1], -1.0) ? b_.elementwise(OpId::neg, {v[0]}, place_) : nullptr;
    case OpId::div:
      if (is_float_constant(v[1], 1.0)) return v[0];
      if (is_narrow_float(t)) return nullptr;
      if (const auto r = exact_reciprocal(v[1])) {
        return b_.elementwise(OpId::mul, {v[0], b_.constant(v[1]->type, *r, place_)}, place_);
      }
      return nullptr;
    default:
      return nullptr;
  }
}

// --- conversions and shapes

Value* Identities::convert(const Op& op, Value* x) {
  const Dtype to = op.results[0]->type.elem;
  if (op.id == OpId::bitcast) {
    const Op* d = made_by(x, OpId::bitcast);
    return d != nullptr ? b_.bitcast(d->operands[0], to, place_) : nullptr;
  }
  const bool saturate = op.attrs.get_int(AttrKey::saturate) != 0;
  if (const Op* d = made_by(x, OpId::convert)) {
    const Dtype from = d->operands[0]->type.elem;
    // Back to an fp8 type is not the identity: an infinity saturates. So is what it converts from.
    if (represents(x->type.elem, from) && keeps_every_value(to) && to != from) {
      // A float saturates on its way to an integer, so the integer it came from must too.
      const bool through_float = is_float(x->type.elem) && is_int(from) && is_int(to);
      return b_.convert(d->operands[0], to, place_, saturate || through_float);
    }
    if (represents(x->type.elem, from) && to == from && (keeps_every_value(to) || to == Dtype::f8e4m3)) {
      return d->operands[0];
    }
  }
  if (const Op* d = made_by(x, OpId::broadcast)) {
    return b_.broadcast(b_.convert(d->operands[0], to, place_, saturate), x->type.shape(), place_);
  }
  return nullptr;
}

Value* Identities::shape(const Op& op, Value* x) {
  const Extents extents = op.results[0]->type.shape();
  if (op.id == OpId::broadcast) {
    if (const Op* d = made_by(x, OpId::broadcast)) return b_.broadcast(d->operands[0], extents, place_);
    const Op* d = x->def;
    const bool from_scalar =
        d != nullptr && (d->id == OpId::expand_dims || d->id == OpId::reshape) && d->operands[0]->type.rank == 0;
    return from_scalar ? b_.broadcast(d->operands[0], extents, place_) : nullptr;
  }
  // A value that is the same in every lane is so in every shape.
  if (const Op* d = made_by(x, OpId::broadcast); d != nullptr && d->operands[0]->type.rank == 0) {
    return b_.broadcast(d->operands[0], extents, place_);
  }
  if (op.id == OpId::reshape) {
    const Op* d = x->def;
    if (d != nullptr && (d->id == OpId::reshape || d->id == OpId::expand_dims)) {
      return b_.reshape(d->operands[0], extents, place_);
    }
  }
  if (op.id == OpId::trans) {
    if (const Op* d = made_by(x, OpId::trans)) {
      std::vector<int> both;
      for (const std::int64_t p : op.attrs.get_list(AttrKey::perm)) {
        both.push_back(static_cast<int>(d->attrs.get_list(AttrKey::perm)[static_cast<std::size_t>(p)]));
      }
      return b_.trans(d->operands[0], both, place_);
    }
  }
  return nullptr;
}

Value* Identities::reduce(const Op& op, const Operands& v) {
  if (v.size() != 2 || constant_of(v[1]) != 1) return nullptr;  // only a mask that keeps every lane goes
  const Combine c = combine_from_name(op.attrs.get_text(AttrKey::combine)).value();
  const int axis = static_cast<int>(op.attrs.get_int(AttrKey::axis));
  return op.id == OpId::reduce ? b_.reduce(v[0], axis, c, nullptr, place_)
                               : b_.arg_reduce(v[0], axis, c, nullptr, place_);
}

}  // namespace tileweave::passes
