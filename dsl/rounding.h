// Rounding modes: conversions to narrower floats, and f32 and f64 arithmetic, rounded to nearest, toward zero, down or
// up. Written in the language: the result rounded to nearest, and a step of one unit where the exact value lies on the
// other side. Of f32 it is held closely enough by f64, of f64 see rounding_f64.h. So every backend gives the same bits.
#pragma once

#include <vector>

#include "tileweave/dsl/rounding_f64.h"
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
template <class E>
concept Float64 = TileNode<E> && std::same_as<elem_t<E>, double>;

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
template <class A, class B>
concept Float64Pair = (Float64<A> || Float64<B>) && ConvertsTo<A, double> && ConvertsTo<B, double>;
template <class A, class B>
concept FloatPair = Float32Pair<A, B> || Float64Pair<A, B>;
template <class A, class B, class C>
concept Float32Triple = ConvertsTo<A, float> && ConvertsTo<B, float> && ConvertsTo<C, float>;
template <class A, class B, class C>
concept Float64Triple = ConvertsTo<A, double> && ConvertsTo<B, double> && ConvertsTo<C, double>;
// What a pair computes in.
template <class A, class B>
using pair_t = std::conditional_t<Float64Pair<A, B>, double, float>;

// An operand in the shape of both, as an addition would broadcast it.
template <int R, class T = float, class A, class B>
Tile<T, R> shaped(const A& a, const B& like, const Place& p) {
  const record::Raw x = record_as(a, dtype_of<T>, p);
  const std::vector<index_t> own = record::shape(x, p), other = record::shape(record_as(like, dtype_of<T>, p), p);
  std::vector<index_t> e(static_cast<std::size_t>(R), 1);
  for (const auto* shape : {&other, &own}) {
    for (std::size_t i = 0; i < shape->size(); ++i) {
      index_t& n = e[e.size() - shape->size() + i];
      if ((*shape)[i] != 1) n = (*shape)[i];
    }
  }
  return Tile<T, R>(record::broadcast(x, e, p));
}

// The f64 result of an operation on finite operands (where `finite` holds), moved as asked.
template <int R>
Wide<R> step_f64(const Wide<R>& y, const Wide<R>& rest, const Flags<R>& finite, Rounding r, const Place& p) {
  const Side<R> exact(y, rest, finite, p);
  return step(y, exact.low, exact.high, r);
}
// Of a sum of two terms: an exact 0 is -0 when rounding down, unless both terms are +0.
template <int R>
Wide<R> step_sum_f64(const Wide<R>& y, const Wide<R>& rest, const Flags<R>& finite, const Wide<R>& a, const Wide<R>& b,
                     Rounding r, const Place& p) {
  const Wide<R> moved = step_f64(y, rest, finite, r, p);
  if (r != Rounding::down) return moved;
  const Flags<R> negative_zero((y == 0.0) & (rest == 0.0) & (signbit(a) | signbit(b)), p);
  return Wide<R>(where(negative_zero, -0.0, moved), p);
}
template <class T, class B>
Tile<T, rank_v<B>> negated(const B& b, const Place& p) {
  return Tile<T, rank_v<B>>(-Tile<T, rank_v<B>>(record_as(b, dtype_of<T>, p)), p);
}
template <int R>
Flags<R> both_numbers(const Wide<R>& x, const Wide<R>& y, const Place& p) {
  return Flags<R>(is_number(x, p) & is_number(y, p), p);
}

template <class A, class B>
auto round_add(const A& a, const B& b, Rounding r, const Place& p) {
  constexpr int R = joint_rank<A, B>;
  using T = pair_t<A, B>;
  const auto x = shaped<R, T>(a, b, p), y = shaped<R, T>(b, a, p);
  if constexpr (std::same_as<T, double>) {
    const TwoSum<R> exact(x, y, p);
    if (r == Rounding::nearest) return exact.sum;
    return step_sum_f64(exact.sum, exact.lost, both_numbers(x, y, p), x, y, r, p);
  } else {
    return step_sum<R>(Tile<float, R>(x + y, p), x.template to<double>(), y.template to<double>(), r, p);
  }
}
template <class A, class B>
auto round_mul(const A& a, const B& b, Rounding r, const Place& p) {
  constexpr int R = joint_rank<A, B>;
  using T = pair_t<A, B>;
  const auto x = shaped<R, T>(a, b, p), y = shaped<R, T>(b, a, p);
  // fma with -0 is the product, and never part of another fma.
  const Tile<T, R> nearest(fma(x, y, T(-0.0)), p);
  if (r == Rounding::nearest) return nearest;
  if constexpr (std::same_as<T, double>) {
    return step_f64(nearest, rest_of_product(x, y, nearest, p), both_numbers(x, y, p), r, p);
  } else {
    const Wide<R> exact(fma(x.template to<double>(), y.template to<double>(), -0.0), p),
        got = nearest.template to<double>();
    return step(nearest, Tile<bool, R>(exact < got, p), Tile<bool, R>(exact > got, p), r);
  }
}
template <int R>
Tile<float, R> step_quotient(const Tile<float, R>& nearest, const Tile<float, R>& x, const Tile<float, R>& y,
                             Rounding r, const Place& p) {
  const Wide<R> divisor = y.template to<double>();
  const Wide<R> rest(fma(-nearest.template to<double>(), divisor, x.template to<double>()), p);
  const Tile<bool, R> more(((rest > 0.0) & (divisor > 0.0)) | ((rest < 0.0) & (divisor < 0.0)), p);
  const Tile<bool, R> less(((rest < 0.0) & (divisor > 0.0)) | ((rest > 0.0) & (divisor < 0.0)), p);
  return step(nearest, less, more, r);
}
template <class A, class B>
auto round_div(const A& a, const B& b, Rounding r, const Place& p) {
  constexpr int R = joint_rank<A, B>;
  using T = pair_t<A, B>;
  const auto x = shaped<R, T>(a, b, p), y = shaped<R, T>(b, a, p);
  const Tile<T, R> nearest(x / y, p);
  if (r == Rounding::nearest) return nearest;
  if constexpr (std::same_as<T, double>) {
    // Of x - q * y; with a negative y the exact quotient lies on the other side of q. x / 0 is exact.
    const Wide<R> rest = rest_of_quotient(x, y, nearest, p), side(where(y < 0.0, -rest, rest), p);
    return step_f64(nearest, side, Flags<R>(both_numbers(x, y, p) & (y != 0.0), p), r, p);
  } else {
    return step_quotient<R>(nearest, x, y, r, p);
  }
}
template <class A>
auto round_sqrt(const A& a, Rounding r, const Place& p) {
  constexpr int R = rank_v<A>;
  using T = elem_t<A>;
  const Tile<T, R> x = a, nearest(sqrt(x), p);
  if (r == Rounding::nearest) return nearest;
  if constexpr (std::same_as<T, double>) {
    return step_f64(nearest, rest_of_root(x, nearest, p), is_number(x, p), r, p);
  } else {
    const Wide<R> root = nearest.template to<double>();
    const Wide<R> rest(fma(-root, root, x.template to<double>()), p);
    return step(nearest, Tile<bool, R>(rest < 0.0, p), Tile<bool, R>(rest > 0.0, p), r);
  }
}
template <class A, class B, class C>
auto round_fma(const A& a, const B& b, const C& c, Rounding r, const Place& p) {
  constexpr int R = std::max(joint_rank<A, B>, rank_v<C>);
  using T = std::conditional_t<Float64Pair<A, B> || Float64Pair<B, C>, double, float>;
  using X = Tile<T, joint_rank<A, B>>;
  const X ab = shaped<joint_rank<A, B>, T>(a, b, p), ba = shaped<joint_rank<A, B>, T>(b, a, p);
  const auto x = shaped<R, T>(ab, c, p), y = shaped<R, T>(ba, c, p), z = shaped<R, T>(c, ab, p);
  if constexpr (std::same_as<T, double>) {
    const Wide<R> nearest(fma(x, y, z), p);
    if (r == Rounding::nearest) return nearest;
    const Flags<R> finite(both_numbers(x, y, p) & is_number(z, p), p);
    return step_sum_f64(nearest, rest_of_fma(x, y, z, nearest, p), finite, Wide<R>(fma(x, y, -0.0), p), z, r, p);
  } else {
    const Wide<R> product(fma(x.template to<double>(), y.template to<double>(), -0.0), p);
    return step_sum<R>(Tile<float, R>(fma(x, y, z), p), product, z.template to<double>(), r, p);
  }
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

// add_rn, add_rz, add_rd, add_ru and so on: f32 and f64, to nearest even, toward zero, down, up. (+ - / sqrt fma round
// to nearest by themselves; mul_rn is a product that no contraction takes part of.)
#define TILEWEAVE_DIRECTED(suffix, mode)                                                                    \
  template <class A, class B>                                                                               \
    requires detail::FloatPair<A, B>                                                                        \
  auto add_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {             \
    return detail::round_add(a, b, Rounding::mode, p);                                                      \
  }                                                                                                         \
  template <class A, class B>                                                                               \
    requires detail::FloatPair<A, B>                                                                        \
  auto sub_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {             \
    return detail::round_add(a, detail::negated<detail::pair_t<A, B>>(b, p), Rounding::mode, p);            \
  }                                                                                                         \
  template <class A, class B>                                                                               \
    requires detail::FloatPair<A, B>                                                                        \
  auto mul_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {             \
    return detail::round_mul(a, b, Rounding::mode, p);                                                      \
  }                                                                                                         \
  template <class A, class B>                                                                               \
    requires detail::FloatPair<A, B>                                                                        \
  auto div_##suffix(const A& a, const B& b, const Place& p = std::source_location::current()) {             \
    return detail::round_div(a, b, Rounding::mode, p);                                                      \
  }                                                                                                         \
  template <class A>                                                                                        \
    requires(detail::Float32<A> || detail::Float64<A>)                                                      \
  auto sqrt_##suffix(const A& a, const Place& p = std::source_location::current()) {                        \
    return detail::round_sqrt(a, Rounding::mode, p);                                                        \
  }                                                                                                         \
  template <class A, class B, class C>                                                                      \
    requires((detail::FloatPair<A, B> || detail::FloatPair<B, C>) &&                                        \
             (detail::Float32Triple<A, B, C> || detail::Float64Triple<A, B, C>))                            \
  auto fma_##suffix(const A& a, const B& b, const C& c, const Place& p = std::source_location::current()) { \
    return detail::round_fma(a, b, c, Rounding::mode, p);                                                   \
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
