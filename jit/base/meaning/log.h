// The logarithms: log, log2, log10, log1p, for f32 and f64.
// Above primitives.h; functions.h dispatches to it by width.
//
// x = 2^e m with m in [sqrt(1/2), sqrt 2), f = m - 1 exactly, log(1 + f) = f + f^2 Q(f), and e log 2 is added with the
// rounding error of the large part carried along. Q: Remez exchange weighted for relative error of the logarithm.
#pragma once

#include "tileweave/jit/base/meaning/primitives.h"

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

// The values at and beyond the ends of a logarithm's domain (0, inf).
template <class V>
V log_ends(const V& x, const V& inside) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V finite = P::select(x < c(infinity), inside, x);
  return P::select(x > c(0.0), finite, P::select(x == c(0.0), c(-infinity), c(not_a_number)));
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
