// The logarithms: log, log2, log10, log1p, for f32 and f64.
// Above primitives.h; functions.h dispatches to it by width.
//
// x = 2^e m with m in [sqrt(1/2), sqrt 2), f = m - 1 exactly, log(1 + f) = f + f^2 Q(f), and e log 2 is added with the
// rounding error of the large part carried along. Q: Remez exchange weighted for relative error of the logarithm.
#pragma once

#include "tileweave/jit/base/meaning/two_parts.h"

namespace tileweave::meaning {

// The values at and beyond the ends of a logarithm's domain (0, inf).
template <class V>
V log_ends(const V& x, const V& inside) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V finite = P::select(x < c(infinity), inside, x);
  return P::select(x > c(0.0), finite, P::select(x == c(0.0), c(-infinity), c(not_a_number)));
}

}  // namespace tileweave::meaning

namespace tileweave::meaning::f32 {

// x = 2^exponent * (1 + fraction), for positive finite x, denormals included.
template <class V>
struct LogParts {
  V exponent, fraction;
};
template <class V>
LogParts<V> log_parts(const V& x) {
  using P = Prim<V>;
  const auto is_denormal = x < P::constant(x, 0x1p-126);
  const V y = P::select(is_denormal, x * P::constant(x, 0x1p23), x);
  const auto above_root_half = P::bits(y) - P::uint_constant(x, 0x3f3504f3);
  const V m = P::from_bits((above_root_half & P::uint_constant(x, 0x007fffff)) + P::uint_constant(x, 0x3f3504f3));
  const V e = P::to_float(P::ashr(P::as_signed(above_root_half), 23));
  return {P::select(is_denormal, e - P::constant(x, 23.0), e), m - P::constant(x, 1.0)};
}

// e ln 2 + log(1 + f); `lost` is a small addend to f.
template <class V>
V log_of_parts(const V& e, const V& f, const V& lost) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(f, v); };
  const V q = polynomial(f, -0x1.fffff8p-2, 0x1.55555p-2, -0x1.000438p-2, 0x1.99a41ep-3, -0x1.5423fap-3, 0x1.226c92p-3,
                         -0x1.0f50e6p-3, 0x1.087132p-3, -0x1.380c72p-4);
  // ln 2 in two parts, the first short enough for e * high to be exact.
  const V high = P::fma(e, c(0x1.62e4p-1), f);
  const V high_lost = f - P::fma(-e, c(0x1.62e4p-1), high);
  return high + (P::fma(f * f, q, P::fma(e, c(0x1.7f7d1cp-20), lost)) + high_lost);
}

template <class V>
V log(const V& x) {
  const LogParts<V> p = log_parts(x);
  return log_ends(x, log_of_parts(p.exponent, p.fraction, Prim<V>::constant(x, 0.0)));
}

template <class V>
V log2(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto [e, f] = log_parts(x);
  const V q = polynomial(f, -0x1.715472p-1, 0x1.ec7098p-2, -0x1.7159dp-2, 0x1.277d8cp-2, -0x1.ead408p-3, 0x1.a3283ep-3,
                         -0x1.86c8d2p-3, 0x1.7c571cp-3, -0x1.c25474p-4);
  const V high = P::fma(f, c(0x1.715476p+0), e);
  const V high_lost = P::fma(f, c(0x1.715476p+0), e - high);
  return log_ends(x, high + (P::fma(f * f, q, f * c(0x1.4ae0cp-26)) + high_lost));
}

template <class V>
V log10(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto [e, f] = log_parts(x);
  const V q = polynomial(f, -0x1.bcb7acp-3, 0x1.287a72p-3, -0x1.bcbe2ep-4, 0x1.63ce9ap-4, -0x1.278188p-4, 0x1.f8ade2p-5,
                         -0x1.d68b22p-5, 0x1.ca2a96p-5, -0x1.0f5d06p-5);
  // log10 2 and log10 e in two parts each; e * the short first part is exact.
  const V a = e * c(0x1.344p-2), b = f * c(0x1.bcb7b2p-2);
  const V b_lost = P::fma(f, c(0x1.bcb7b2p-2), -b);
  const V high = a + b;
  const V high_lost = P::select(e == c(0.0), c(0.0), b - (high - a));
  const V low = P::fma(f, c(-0x1.5b235ep-27), P::fma(e, c(0x1.3509f8p-18), b_lost));
  return log_ends(x, high + (P::fma(f * f, q, low) + high_lost));
}

// log(1 + x) without forming 1 + x: with s = 2^-e the fraction is x s + (s - 1), rounded once.
template <class V>
V log1p(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  // Above 2^100 the 1 does not matter; 2^-e would leave the normal range there.
  const auto is_huge = x > c(0x1p100);
  const V y = P::select(is_huge, x * c(0x1p-64), x);
  const auto above_root_half = P::bits(y + c(1.0)) - P::uint_constant(x, 0x3f3504f3);
  const auto exponent = P::ashr(P::as_signed(above_root_half), 23);
  const V s = P::from_bits(P::uint_constant(x, 0x3f800000) - P::shl(P::as_unsigned(exponent), 23));
  const V f = P::fma(y, s, s - c(1.0));
  const V lost = P::fma(y, s, (s - c(1.0)) - f);
  const V e = P::to_float(exponent);
  const V inside = log_of_parts(P::select(is_huge, e + c(64.0), e), f, lost);
  const V finite = P::select(x < c(infinity), inside, x);
  const V r = P::select(x > c(-1.0), finite, P::select(x == c(-1.0), c(-infinity), c(not_a_number)));
  return copy_sign(r, x);
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

template <class V>
struct LogParts {
  V exponent, fraction;
};
template <class V>
LogParts<V> log_parts(const V& x) {
  using P = Prim<V>;
  const auto is_denormal = x < P::constant(x, 0x1p-1022);
  const V y = P::select(is_denormal, x * P::constant(x, 0x1p52), x);
  const auto root_half = P::uint_constant(x, 0x3fe6a09e667f3bcd);
  const auto above = P::bits(y) - root_half;
  const V m = P::from_bits((above & P::uint_constant(x, 0x000fffffffffffff)) + root_half);
  const V e = P::to_float(P::ashr(P::as_signed(above), 52));
  return {P::select(is_denormal, e - P::constant(x, 52.0), e), m - P::constant(x, 1.0)};
}

// log2 of 2^e (1 + f + f_low) in two parts, error 2^-65: e + 2/ln2 (s + s^3 g(s^2)) with s = f / (2 + f).
template <class V>
TwoParts<V> log2_of_parts(const V& e, const V& f, const V& f_low) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(f, v); };
  const auto [d, d_lost] = sum_of(c(2.0), f);
  const V inverse = c(1.0) / d;
  const V s = f * inverse;
  const V s_low = (P::fma(-s, d_lost + f_low, P::fma(-s, d, f)) + f_low) * inverse;
  const V t = s * s;
  const V t_low = P::fma(s + s, s_low, P::fma(s, s, -t));
  const V tail =
      P::fma(t,
             polynomial(t, 0x1.2776c50ef9bfcp-1, 0x1.a61762a7aeddep-2, 0x1.484b13d6ace62p-2, 0x1.0c9a853af7deep-2,
                        0x1.c68ee95d6d874p-3, 0x1.8a09b831b2369p-3, 0x1.58fcc41296148p-3, 0x1.61f126063aad3p-3),
             c(0x1.d27f05548af0cp-55));
  const auto [g, g_low] = sum_of(c(0x1.ec709dc3a03fdp-1), tail);
  const auto [cube, cube_lost] = product_of(s, t);
  const V cube_low = P::fma(s, t_low, P::fma(s_low, t, cube_lost));
  const auto [b, b_lost] = product_of(cube, g);
  const V b_low = P::fma(cube, g_low, P::fma(cube_low, g, b_lost));
  const auto [a, a_lost] = product_of(s, c(0x1.71547652b82fep+1));
  const V a_low = P::fma(s, c(0x1.777d0ffda0d24p-55), P::fma(s_low, c(0x1.71547652b82fep+1), a_lost));
  const auto [first, first_lost] = sum_of(e, a);
  const auto [second, second_lost] = sum_of(first, b);
  return sum_of(second, (first_lost + second_lost) + (a_low + b_low));
}

template <class V>
TwoParts<V> log2_in_two_parts(const V& x) {
  const LogParts<V> p = log_parts(x);
  return log2_of_parts(p.exponent, p.fraction, Prim<V>::constant(x, 0.0));
}

// A logarithm to base 2 times log 2 in another base, itself in two parts.
template <class V>
V in_base(const TwoParts<V>& log2, double high, double low) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(log2.high, v); };
  const auto [product, lost] = product_of(log2.high, c(high));
  return product + P::fma(log2.low, c(high), P::fma(log2.high, c(low), lost));
}

template <class V>
V log(const V& x) {
  return log_ends(x, in_base(log2_in_two_parts(x), 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56));
}

template <class V>
V log2(const V& x) {
  return log_ends(x, log2_in_two_parts(x).high);
}

template <class V>
V log10(const V& x) {
  return log_ends(x, in_base(log2_in_two_parts(x), 0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59));
}

template <class V>
V log1p(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto is_huge = x > c(0x1p500);
  const V y = P::select(is_huge, x * c(0x1p-300), x);
  const auto above = P::bits(y + c(1.0)) - P::uint_constant(x, 0x3fe6a09e667f3bcd);
  const auto exponent = P::ashr(P::as_signed(above), 52);
  const V s = P::from_bits(P::uint_constant(x, 0x3ff0000000000000) - P::shl(P::as_unsigned(exponent), 52));
  const V f = P::fma(y, s, s - c(1.0));
  const V lost = P::fma(y, s, (s - c(1.0)) - f);
  const V e = P::to_float(exponent);
  const TwoParts<V> parts = log2_of_parts(P::select(is_huge, e + c(300.0), e), f, lost);
  const V inside = in_base(parts, 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56);
  const V finite = P::select(x < c(infinity), inside, x);
  const V r = P::select(x > c(-1.0), finite, P::select(x == c(-1.0), c(-infinity), c(not_a_number)));
  return P::select(P::abs(x) < c(0x1p-60), x, r);
}

}  // namespace tileweave::meaning::f64
