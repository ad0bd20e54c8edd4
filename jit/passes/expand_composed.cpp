// Writes every composed function out in native ops, by running its meaning on IR values, and makes the arithmetic of
// narrow floats explicit: convert to f32, compute, convert once.
// After contract_fma and before code generation, which knows native ops alone.
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/meaning/functions.h"
#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/ir/short_forms.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

// A value with the builder that makes ops on it: what the meanings compute with here. Floats, integers and bools are
// one C++ type; the IR's types tell them apart.
struct Expr {
  Builder* builder = nullptr;
  Value* value = nullptr;
  Place place;
  // Divisors and quotients of this function are normal numbers, or do not matter (for GPUs: no slow path).
  bool divides_in_range = false;

  Dtype elem() const { return value->type.elem; }
  Expr with(Value* v) const { return {builder, v, place, divides_in_range}; }
  Expr apply(OpId id) const { return with(builder->elementwise(id, {value}, place)); }
  Expr apply(OpId id, const Expr& b) const { return with(builder->elementwise(id, {value, b.value}, place)); }
  Expr apply(OpId id, const Expr& b, const Expr& c) const {
    return with(builder->elementwise(id, {value, b.value, c.value}, place));
  }
  Expr bits_as(Dtype t) const { return with(builder->bitcast(value, t, place)); }
  Expr converted(Dtype t) const { return with(builder->convert(value, t, place)); }
};

Expr operator+(const Expr& a, const Expr& b) { return a.apply(OpId::add, b); }
Expr operator-(const Expr& a, const Expr& b) { return a.apply(OpId::sub, b); }
Expr operator*(const Expr& a, const Expr& b) { return a.apply(OpId::mul, b); }
[[maybe_unused]] Expr operator/(const Expr& a, const Expr& b) {
  const Expr quotient = a.apply(OpId::div, b);
  if (a.divides_in_range) quotient.value->def->attrs.set(AttrKey::precision, "in_range");
  return quotient;
}
Expr operator-(const Expr& a) { return a.apply(OpId::neg); }
[[maybe_unused]] Expr operator&(const Expr& a, const Expr& b) { return a.apply(OpId::bit_and, b); }
[[maybe_unused]] Expr operator|(const Expr& a, const Expr& b) { return a.apply(OpId::bit_or, b); }
[[maybe_unused]] Expr operator^(const Expr& a, const Expr& b) { return a.apply(OpId::bit_xor, b); }
[[maybe_unused]] Expr operator~(const Expr& a) { return a.apply(OpId::bit_not); }
[[maybe_unused]] Expr operator<(const Expr& a, const Expr& b) { return a.apply(OpId::lt, b); }
[[maybe_unused]] Expr operator<=(const Expr& a, const Expr& b) { return a.apply(OpId::le, b); }
[[maybe_unused]] Expr operator>(const Expr& a, const Expr& b) { return a.apply(OpId::gt, b); }
[[maybe_unused]] Expr operator>=(const Expr& a, const Expr& b) { return a.apply(OpId::ge, b); }
[[maybe_unused]] Expr operator==(const Expr& a, const Expr& b) { return a.apply(OpId::eq, b); }
[[maybe_unused]] Expr operator!=(const Expr& a, const Expr& b) { return a.apply(OpId::ne, b); }

Dtype unsigned_of(Dtype t) { return dtype_info(t).bits == 64 ? Dtype::u64 : Dtype::u32; }
Dtype signed_of(Dtype t) { return dtype_info(t).bits == 64 ? Dtype::i64 : Dtype::i32; }
Dtype float_of(Dtype t) { return dtype_info(t).bits == 64 ? Dtype::f64 : Dtype::f32; }

}  // namespace
}  // namespace tileweave::passes

namespace tileweave::meaning {

// The primitives, each an op of the table.
template <>
struct Prim<passes::Expr> {
  using E = passes::Expr;
  using Bool = E;
  using UInt = E;
  using SInt = E;
  static constexpr int static_width = 0;
  static int width(const E& x) { return dtype_info(x.elem()).bits; }

  static E constant(const E& like, double c) {
    return like.with(like.builder->constant(like.value->type, c, like.place));
  }
  static E uint_constant(const E& like, std::uint64_t bits) {
    const ir::Type t = like.value->type.with_elem(passes::unsigned_of(like.elem()));
    return like.with(like.builder->constant_bits(t, bits, like.place));
  }
  static E count(const E& x, int n) {
    return x.with(x.builder->constant(x.value->type, static_cast<std::int64_t>(n), x.place));
  }

  static E abs(const E& x) { return x.apply(ir::OpId::abs); }
  static E sqrt(const E& x) { return x.apply(ir::OpId::sqrt); }
  static E fma(const E& a, const E& b, const E& c) { return a.apply(ir::OpId::fma, b, c); }
  static E floor(const E& x) { return x.apply(ir::OpId::floor); }
  static E ceil(const E& x) { return x.apply(ir::OpId::ceil); }
  static E trunc(const E& x) { return x.apply(ir::OpId::trunc); }
  static E rint(const E& x) { return x.apply(ir::OpId::rint); }
  static E fmin(const E& a, const E& b) { return a.apply(ir::OpId::fmin, b); }
  static E fmax(const E& a, const E& b) { return a.apply(ir::OpId::fmax, b); }
  static E minimum(const E& a, const E& b) { return a.apply(ir::OpId::minimum, b); }
  static E maximum(const E& a, const E& b) { return a.apply(ir::OpId::maximum, b); }

  static E select(const E& c, const E& a, const E& b) { return c.apply(ir::OpId::where, a, b); }
  static E logical_and(const E& a, const E& b) { return a & b; }
  static E logical_or(const E& a, const E& b) { return a | b; }
  static E logical_xor(const E& a, const E& b) { return a ^ b; }
  static E logical_not(const E& a) { return ~a; }

  static E bits(const E& x) { return x.bits_as(passes::unsigned_of(x.elem())); }
  static E from_bits(const E& b) { return b.bits_as(passes::float_of(b.elem())); }
  static E as_signed(const E& b) { return b.bits_as(passes::signed_of(b.elem())); }
  static E as_unsigned(const E& b) { return b.bits_as(passes::unsigned_of(b.elem())); }

  // The op's count has the operand's type; its meaning reads it as unsigned.
  static E shl(const E& x, const E& n) { return x.apply(ir::OpId::shl, n.bits_as(x.elem())); }
  static E lshr(const E& x, const E& n) { return x.apply(ir::OpId::shr, n.bits_as(x.elem())); }
  static E ashr(const E& x, const E& n) { return x.apply(ir::OpId::shr, n.bits_as(x.elem())); }
  static E shl(const E& x, int n) { return shl(x, count(x, n)); }
  static E lshr(const E& x, int n) { return lshr(x, count(x, n)); }
  static E ashr(const E& x, int n) { return ashr(x, count(x, n)); }
  static E mul_high(const E& a, const E& b) { return a.apply(ir::OpId::mul_hi, b); }

  static E to_int(const E& x) { return x.converted(passes::signed_of(x.elem())); }
  static E to_float(const E& x) { return x.converted(passes::float_of(x.elem())); }
  static E to_float_unsigned(const E& x) { return x.converted(passes::float_of(x.elem())); }

  template <class Slow>
  static E select_rare(const E& c, Slow slow, const E& fast) {
    return select(c, slow(), fast);
  }
};

}  // namespace tileweave::meaning

namespace tileweave::passes {
namespace {

// The meaning of a composed op on f32 or f64 values.
Expr expand(OpId id, const Expr& a, [[maybe_unused]] const Expr& b) {
  switch (id) {
#define native(e) break
#define composed(e) return ::tileweave::meaning::e
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  case OpId::id:                                                                    \
    meaning;
#include "tileweave/jit/ir/ops.def"
#undef native
#undef composed
    default:
      break;
  }
  throw_internal_error(std::source_location::current(), std::string(op_info(id).name) + " is not composed");
}

// f32 functions whose every division is 1 / a or y / (1 + exp(z)), scaled so that both sides are normal numbers; where
// they are not, the quotient is rounded away or not selected.
bool divides_in_range(OpId id) {
  return id == OpId::gelu || id == OpId::gelu_derivative || id == OpId::gelu_tanh || id == OpId::gelu_sigmoid ||
         id == OpId::silu || id == OpId::sigmoid || id == OpId::tanh;
}

Value* compute(Builder& b, const Op& op, const std::vector<Value*>& operands, bool for_gpu) {
  if (!op_info(op.id).composed) return b.remake(op, operands, op.place);
  const bool in_range = for_gpu && divides_in_range(op.id) && operands[0]->type.elem == Dtype::f32;
  const Expr first{&b, operands.front(), op.place, in_range}, last{&b, operands.back(), op.place, in_range};
  return expand(op.id, first, last).value;
}

bool computes_in_f32(const Op& op) {
  const bool computes =
      (is_elementwise(op.id) && op.id != OpId::where) || op.id == OpId::reduce || op.id == OpId::arg_reduce;
  return computes && is_narrow_float(op.operands[0]->type.elem);
}

// A composed op that stays: the GPU lowering has a short form of it for where its result is rounded.
bool stays(const Op& op, const RoundedValues* rounded) {
  if (rounded == nullptr || !op_info(op.id).composed) return false;
  const Dtype t = op.results[0]->type.elem;
  if (!is_narrow_float(t)) return rounded->form_of(op) != nullptr;
  return short_form(op.id, {Rounding::Use::rounded, t == Dtype::bf16 ? Dtype::bf16 : Dtype::f16}) != nullptr;
}

bool is_one(const Value* v) {
  while (v->def != nullptr && v->def->id == OpId::broadcast) v = v->def->operands[0];
  return v->def != nullptr && v->def->id == OpId::constant && v->type.elem == Dtype::f32 &&
         v->def->attrs.get_int(AttrKey::value) == 0x3f800000;
}

// 1 + tanh(u), where it is rounded to 16 bits, is 2 sigmoid(2u): no cancellation, and a short form.
bool rewrite_one_plus_tanh(Rewriter& w, const Op& op, const RoundedValues& rounded) {
  if (op.id != OpId::add || op.results[0]->type.elem != Dtype::f32) return false;
  if (short_form(OpId::sigmoid, rounded.of(op.results[0])) == nullptr) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    const Op* tanh = op.operands[i]->def;
    if (tanh == nullptr || tanh->id != OpId::tanh || !is_one(op.operands[1 - i])) continue;
    Builder& b = w.builder();
    Value* two = b.constant(op.results[0]->type, 2.0, op.place);
    Value* u = b.elementwise(OpId::mul, {two, w.map(tanh->operands[0])}, op.place);
    Value* s = b.elementwise(OpId::sigmoid, {u}, op.place);
    w.replace(op.results[0], b.elementwise(OpId::mul, {two, s}, op.place));
    return true;
  }
  return false;
}

bool expand_op(Rewriter& w, const Op& op, const RoundedValues* rounded) {
  if (rounded != nullptr && rewrite_one_plus_tanh(w, op, *rounded)) return true;
  const bool narrow = computes_in_f32(op), stay = stays(op, rounded);
  if (!narrow && (stay || !op_info(op.id).composed)) return false;
  std::vector<Value*> operands = w.map(op.operands);
  Builder& b = w.builder();
  for (Value*& v : operands) {
    if (narrow && is_narrow_float(v->type.elem)) v = b.convert(v, Dtype::f32, op.place);
  }
  Value* result = stay ? b.remake(op, operands, op.place) : compute(b, op, operands, rounded != nullptr);
  const Dtype wanted = op.results[0]->type.elem;
  w.replace(op.results[0], is_narrow_float(wanted) ? b.convert(result, wanted, op.place) : result);
  return true;
}

}  // namespace

void expand_composed(Function& f) {
  f = Rewriter(f).run([](Rewriter& w, const Op& op) { return expand_op(w, op, nullptr); });
}

void expand_composed_but_short_forms(Function& f) {
  const RoundedValues rounded(f);
  f = Rewriter(f).run([&](Rewriter& w, const Op& op) { return expand_op(w, op, &rounded); });
}

}  // namespace tileweave::passes
