// Rounding modes: conversions to narrower floats, and f32 arithmetic, rounded to nearest, toward zero, down or up.
// Written in the language: the result rounded to nearest, and a step of one unit where the exact value, which f64 holds
// closely enough to be compared, lies on the other side. So every backend gives the same bits.
#pragma once

#include <vector>

#include "tileweave/dsl/shape.h"

namespace tileweave {

enum class Rounding : std::uint8_t { nearest, zero, down, up };

namespace detail {

template <int bytes>
using unsigned_of = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

// y, or its neighbour where the exact value is less (`low`) or more (`high`) than y.
template <class T, int R>
Tile<T, R> step(const Tile<T, R>& y, const Tile<bool, R>& low, const Tile<bool, R>& high, Rounding r) {
  using U = unsigned_of<sizeof(T)>;
  const Tile<U, R> bits = y.template bitcast<U>();
  const Tile<bool, R> negative = (bits >> U(8 * sizeof(T) - 1)) != U(0);
  // In sign and magnitude one bit less is toward zero.
  const Tile<U, R> inner(bits - U(1)), outer(bits + U(1));
  switch (r) {
    case Rounding::zero:
      return Tile<U, R>(where((low & !negative) | (high & negative), inner, bits)).template bitcast<T>();
    case Rounding::down:
      return Tile<U, R>(where(low, where(negative, outer, inner), bits)).template bitcast<T>();
    case Rounding::up:
      return Tile<U, R>(where(high, where(negative, inner, outer), bits)).template bitcast<T>();
    case Rounding::nearest:
      break;
  }
  return y;
}

template <class E>
concept Float32 = TileNode<E> && std::same_as<elem_t<E>, float>;

template <int R>
using Wide = Tile<double, R>;

// The sum of two doubles and what it lost: exact (Knuth, "The Art of Computer Programming", vol. 2, 4.2.2).
template <int R>
struct TwoSum {
  Wide<R> sum, lost;
  TwoSum(const Wide<R>& a, const Wide<R>& b, const Place& p) : sum(a + b, p), lost(zero(a, b, p)) {}

 private:
  Wide<R> zero(const Wide<R>& a, const Wide<R>& b, const Place& p) const {
    const Wide<R> from_b(sum - a, p);
    return Wide<R>((a - (sum - from_b)) + (b - from_b), p);
  }
};

// The f32 nearest to an exact sum p + q of doubles, `y`, moved as asked. Of an exact 0 the sign is -0 when rounding
// down, unless both terms are +0.
template <int R>
Tile<float, R> step_sum(const Tile<float, R>& y, const Wide<R>& p, const Wide<R>& q, Rounding r, const Place& place) {
  if (r == Rounding::nearest) return y;
  const TwoSum<R> exact(p, q, place);
  const Wide<R> off(exact.sum - y.template to<double>(), place);
  const Tile<bool, R> same(off == 0.0, place);
  const Tile<bool, R> low((off < 0.0) | (same & (exact.lost < 0.0)), place);
  const Tile<bool, R> high((off > 0.0) | (same & (exact.lost > 0.0)), place);
  const Tile<float, R> moved = step(y, low, high, r);
  if (r != Rounding::down) return moved;
  const Tile<bool, R> negative_zero((y == 0.0f) & !low & !high & (signbit(p) | signbit(q)), place);
  return Tile<float, R>(where(negative_zero, -0.0f, moved), place);
}

template <class A, class B>
inline constexpr int joint_rank = std::max(rank_v<A>, rank_v<B>);
template <class A, class B>
concept Float32Pair = (Float32<A> || Float32<B>) && ConvertsTo<A, float> && ConvertsTo<B, float>;

// An operand in the shape of both, as an addition would broadcast it.
template <int R, class A, class B>
Tile<float, R> shaped(const A& a, const B& like, const Place& p) {
  const record::Raw x = record_as(a, Dtype::f32, p);
  const std::vector<index_t> own = record::shape(x, p), other = record::shape(record_as(like, Dtype::f32, p), p);
  std::vector<index_t> e(static_cast<std::size_t>(R), 1);
  for (const auto* shape : {&other, &own}) {
    for (std::size_t i = 0; i < shape->size(); ++i) {
      index_t& n = e[e.size() - shape->size() + i];
      if ((*shape)[i] != 1) n = (*shape)[i];
    }
  }
  return Tile<float, R>(record::broadcast(x, e, p));
}

template <class A, class B>
auto round_add(const A& a, const B& b, Rounding r, const Place& p) {
  constexpr int R = joint_rank<A, B>;
  const auto x = shaped<R>(a, b, p), y = shaped<R>(b, a, p);
  return step_sum<R>(Tile<float, R>(x + y, p), x.template to<double>(), y.template to<double>(), r, p);
}
template <class A, class B>
auto round_mul(const A& a, const B& b, Rounding r, const Place& p) {
  constexpr int R = joint_rank<A, B>;
  const auto x = shaped<R>(a, b, p), y = shaped<R>(b, a, p);
  // fma with -0 is the product, and never part of another fma.
  const Tile<float, R> nearest(fma(x, y, -0.0f), p);
  if (r == Rounding::nearest) return nearest;
  const Wide<R> exact(fma(x.template to<double>(), y.template to<double>(), -0.0), p),
      got = nearest.template to<double>();
  return step(nearest, Tile<bool, R>(exact < got, p), Tile<bool, R>(exact > got, p), r);
}
template <class A, class B>
auto round_div(const A& a, const B& b, Rounding r, const Place& p) {
  constexpr int R = joint_rank<A, B>;
  const auto x = shaped<R>(a, b, p), y = shaped<R>(b, a, p);
  const Tile<float, R> nearest(x / y, p);
  if (r == Rounding::nearest) return nearest;
  const Wide<R> divisor = y.template to<double>();
  const Wide<R> rest(fma(-nearest.template to<double>(), divisor, x.template to<double>()), p);
  const Tile<bool, R> more(((rest > 0.0) & (divisor > 0.0)) | ((rest < 0.0) & (divisor < 0.0)), p);
  const Tile<bool, R> less(((rest < 0.0) & (divisor > 0.0)) | ((rest > 0.0) & (divisor < 0.0)), p);
  return step(nearest, less, more, r);
}
template <class A>
auto round_sqrt(const A& a, Rounding r, const Place& p) {
  constexpr int R = rank_v<A>;
  const Tile<float, R> x = a, nearest(sqrt(x), p);
  if (r == Rounding::nearest) return nearest;
  const Wide<R> root = nearest.template to<double>();
  const Wide<R> rest(fma(-root, root, x.template to<double>()), p);
  return step(nearest, Tile<bool, R>(rest < 0.0, p), Tile<bool, R>(rest > 0.0, p), r);
}
template <class A, class B, class C>
auto round_fma(const A& a, const B& b, const C& c, Rounding r, const Place& p) {
  constexpr int R = std::max(joint_rank<A, B>, rank_v<C>);
  using X = Tile<float, joint_rank<A, B>>;
  const X ab = shaped<joint_rank<A, B>>(a, b, p), ba = shaped<joint_rank<A, B>>(b, a, p);
  const auto x = shaped<R>(ab, c, p), y = shaped<R>(ba, c, p), z = shaped<R>(c, ab, p);
  const Wide<R> product(fma(x.template to<double>(), y.template to<double>(), -0.0), p);
  return step_sum<R>(Tile<float, R>(fma(x, y, z), p), product, z.template to<double>(), r, p);
}

}  // namespace detail

// To a narrower float, rounded as asked. fp8 saturates; f16, bf16 and f32 overflow to infinity as IEEE 754 says for the
// mode (toward zero: to the largest finite value).
template <FloatElem T, TileNode E>
  requires(FloatElem<elem_t<E>> && sizeof(T) < sizeof(elem_t<E>))
Tile<T, rank_v<E>> round_to(const E& e, Rounding r, const Place& p = std::source_location::current()) {
  constexpr int R = rank_v<E>;
  using W = elem_t<E>;
  const Tile<W, R> x(record_node(e, p));
  const Tile<T, R> y = x.template to<T>();
  if (r == Rounding::nearest) return y;
  const Tile<W, R> back = y.template to<W>();
  constexpr bool saturates = sizeof(T) == 1;
  const Tile<bool, R> low(x < back, p), high(x > back, p);
  if constexpr (!saturates) return detail::step(y, low, high, r);
  const Tile<bool, R> fits(abs(x) <= static_cast<W>(static_cast<float>(highest<T>)), p);
  return detail::step(y, Tile<bool, R>(low & fits, p), Tile<bool, R>(high & fits, p), r);
}
template <FloatElem T, TileNode E>
  requires(!(FloatElem<elem_t<E>> && sizeof(T) < sizeof(elem_t<E>)))
TILEWEAVE_REFUSED("round_to: from a wider to a narrower float; other conversions are .to<T>() and tw::saturate")
Tile<T, rank_v<E>> round_to(const E&, Rounding);

// add_rn, add_rz, add_rd, add_ru and so on: f32, to nearest even, toward zero, down, up. (+ - / sqrt fma round to
// nearest by themselves; mul_rn is a product that no contraction takes part of.)
#define TILEWEAVE_DIRECTED(suffix, mode)                                                                         \
  template <class A, class B>                                                                                    \
    requires detail::Float32Pair<A, B>                                                                           \
  auto add_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {                  \
    return detail::round_add(a, b, Rounding::mode, p);                                                           \
  }                                                                                                              \
  template <class A, class B>                                                                                    \
    requires detail::Float32Pair<A, B>                                                                           \
  auto sub_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {                  \
    return detail::round_add(a, Tile<float, rank_v<B>>(-Tile<float, rank_v<B>>(record_as(b, Dtype::f32, p)), p), \
                             Rounding::mode, p);                                                                 \
  }                                                                                                              \
  template <class A, class B>                                                                                    \
    requires detail::Float32Pair<A, B>                                                                           \
  auto mul_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {                  \
    return detail::round_mul(a, b, Rounding::mode, p);                                                           \
  }                                                                                                              \
  template <class A, class B>                                                                                    \
    requires detail::Float32Pair<A, B>                                                                           \
  auto div_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {                  \
    return detail::round_div(a, b, Rounding::mode, p);                                                           \
  }                                                                                                              \
  template <detail::Float32 A>                                                                                   \
  auto sqrt_##suffix(const A& a, const Place& p = std::source_location::current()) {                             \
    return detail::round_sqrt(a, Rounding::mode, p);                                                             \
  }                                                                                                              \
  template <class A, class B, class C>                                                                           \
    requires(detail::Float32Pair<A, B> || detail::Float32Pair<B, C>)                                             \
  auto fma_##suffix(const A& a, const B& b, const C& c, const Place& p = std::source_location::current()) {      \
    return detail::round_fma(a, b, c, Rounding::mode, p);                                                        \
  }
TILEWEAVE_DIRECTED(rn, nearest)
TILEWEAVE_DIRECTED(rz, zero)
TILEWEAVE_DIRECTED(rd, down)
TILEWEAVE_DIRECTED(ru, up)
#undef TILEWEAVE_DIRECTED

// Triton's name for the upper half of a product.
template <class A, class B>
  requires detail::Fits<ir::OpId::mul_hi, A, B>
constexpr auto umulhi(const A& a, const B& b) {
  return mul_hi(a, b);
}

}  // namespace tileweave
