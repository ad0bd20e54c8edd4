// The exponential family: exp, exp2, exp10, expm1, for f32 and f64, and the pieces that erf, tanh and pow reuse.
// Above primitives.h; functions.h dispatches to it by width.
//
// All of them write x as n ln 2 + r with n an integer and |r| <= ln 2 / 2, and return 2^n * p(r). Rounding to n is done
// by adding a `magic` number whose unit in the last place is 1: the integer then stands in the low bits of the sum, so
// that a shift by the width of the fraction makes the float 2^n out of it. Polynomials: Remez exchange in 200-bit
// arithmetic on the reduced interval, coefficients then rounded one after the other, the rest refitted each time.
#pragma once

#include "tileweave/jit/base/meaning/primitives.h"

namespace tileweave::meaning::f32 {

inline constexpr double log2_e = 0x1.715476p+0;
// ln 2 = high + low; n * high is not rounded before the cancellation, because fma does not round it.
inline constexpr double ln2_high = 0x1.62e43p-1, ln2_low = -0x1.05c610p-29;
inline constexpr double magic = 0x1.8p23;
inline constexpr int bias = 127;

// 2^(n + k) from n + (magic + bias + k), the sum as a float.
template <class V>
V power_of_two(const V& shifted) {
  return Prim<V>::from_bits(Prim<V>::shl(Prim<V>::bits(shifted), 23));
}

// exp(r) for |r| <= ln 2 / 2; error 2^-28.
template <class V>
V exp_of_remainder(const V& r) {
  return polynomial(r, 1.0, 1.0, 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558bp-5, 0x1.12399cp-7, 0x1.6a4ecap-10);
}

// 2^r for |r| <= 1/2; error 2^-28.
template <class V>
V exp2_of_remainder(const V& r) {
  return polynomial(r, 1.0, 0x1.62e43p-1, 0x1.ebfbdcp-3, 0x1.c6af7ap-5, 0x1.3b2ddap-7, 0x1.5f0986p-10, 0x1.4173acp-13);
}

// p * 2^n where n may take the result into the denormals or over the top: two factors, each a normal number, and only
// the last product rounds. `n_value` is what was rounded to n divided by 2 and shifted by magic + bias.
template <class V>
V scale_by_halves(const V& p, const V& shifted_n_plus_254, const V& shifted_half) {
  using P = Prim<V>;
  const V first = power_of_two(shifted_half);
  const V second = P::from_bits(P::shl(P::bits(shifted_n_plus_254) - P::bits(shifted_half), 23));
  return p * first * second;
}

template <class V>
V exp(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 89.0), -104.0);
  const V shifted = P::fma(y, c(log2_e), c(magic + 254));
  const V half = P::fma(y, c(log2_e / 2), c(magic + bias));
  const V n = shifted - c(magic + 254);
  const V r = P::fma(n, c(-ln2_low), P::fma(n, c(-ln2_high), y));
  return scale_by_halves(exp_of_remainder(r), shifted, half);
}

template <class V>
V exp2(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 129.0), -151.0);
  const V shifted = y + c(magic + 254);
  const V half = P::fma(y, c(0.5), c(magic + bias));
  const V r = y - (shifted - c(magic + 254));
  return scale_by_halves(exp2_of_remainder(r), shifted, half);
}

template <class V>
V exp10(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 38.75), -45.5);
  const V shifted = P::fma(y, c(0x1.a934fp+1), c(magic + 254));
  const V half = P::fma(y, c(0x1.a934fp+0), c(magic + bias));
  const V n = shifted - c(magic + 254);
  // log10 2 in two parts.
  const V r = P::fma(n, c(0x1.ec10cp-27), P::fma(n, c(-0x1.344136p-2), y));
  const V p =
      polynomial(r, 1.0, 0x1.26bb1cp+1, 0x1.53524ap+1, 0x1.046f9cp+1, 0x1.2bd9fep+0, 0x1.156a36p-1, 0x1.a63d02p-3);
  return scale_by_halves(p, shifted, half);
}

// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), the last sum carried in two parts.
template <class V>
V expm1(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 89.0), -25.0);
  const V shifted = P::fma(y, c(log2_e), c(magic + bias - 1));
  const V n = shifted - c(magic + bias - 1);
  const V r_high = P::fma(n, c(-ln2_high), y);
  const V r = P::fma(n, c(-ln2_low), r_high);
  // (exp(r) - 1 - r) / r^2, and what rounding r lost.
  const V q = polynomial(r, 0.5, 0x1.5554bp-3, 0x1.5554ep-5, 0x1.122796p-7, 0x1.6d586ep-10);
  const V lost = P::fma(n, c(-ln2_low), r_high - r);
  // Everything is halved until the end, because 2^128 is no float.
  const V s = power_of_two(shifted);
  const V a = s - c(0.5), b = s * r;
  const V sum = a + b;
  const V sum_lost = (b - (sum - a)) + ((s - a) - c(0.5));
  const V rest = P::fma(s, P::fma(r * r, q, lost), sum_lost);
  return P::select(P::abs(x) < c(0x1p-30), x, (sum + rest) * c(2.0));
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

inline constexpr double log2_e = 0x1.71547652b82fep+0;
inline constexpr double ln2_high = 0x1.62e42fefa39efp-1, ln2_low = 0x1.abc9e3b39803fp-56;
inline constexpr double magic = 0x1.8p52;
inline constexpr int bias = 1023;

template <class V>
V power_of_two(const V& shifted) {
  return Prim<V>::from_bits(Prim<V>::shl(Prim<V>::bits(shifted), 52));
}

// exp(r) for |r| <= ln 2 / 2; error 2^-64.
template <class V>
V exp_of_remainder(const V& r) {
  return polynomial(r, 1.0, 1.0, 0.5, 0x1.555555555555bp-3, 0x1.5555555555542p-5, 0x1.111111110ee5cp-7,
                    0x1.6c16c16c20d34p-10, 0x1.a01a01b2ba589p-13, 0x1.a01a016bb93aap-16, 0x1.71ddf1f2b098fp-19,
                    0x1.27e5604938106p-22, 0x1.af68eced4b209p-26, 0x1.1ea10a0d44b8bp-29);
}

template <class V>
V scale_by_halves(const V& p, const V& shifted_n_plus_2046, const V& shifted_half) {
  using P = Prim<V>;
  const V first = power_of_two(shifted_half);
  const V second = P::from_bits(P::shl(P::bits(shifted_n_plus_2046) - P::bits(shifted_half), 52));
  return p * first * second;
}

template <class V>
V exp(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 710.0), -746.0);
  const V shifted = P::fma(y, c(log2_e), c(magic + 2 * bias));
  const V half = P::fma(y, c(log2_e / 2), c(magic + bias));
  const V n = shifted - c(magic + 2 * bias);
  const V r = P::fma(n, c(-ln2_low), P::fma(n, c(-ln2_high), y));
  return scale_by_halves(exp_of_remainder(r), shifted, half);
}

// 2^(z + low), low a small correction.
template <class V>
V exp2_of_parts(const V& x, const V& low) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 1025.0), -1076.0);
  const V shifted = y + c(magic + 2 * bias);
  const V half = P::fma(y, c(0.5), c(magic + bias));
  const V r = (y - (shifted - c(magic + 2 * bias))) + low;
  return scale_by_halves(exp_of_remainder(P::fma(r, c(ln2_low), r * c(ln2_high))), shifted, half);
}

template <class V>
V exp2(const V& x) {
  return exp2_of_parts(x, Prim<V>::constant(x, 0.0));
}

template <class V>
V exp10(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 308.5), -324.0);
  const V shifted = P::fma(y, c(0x1.a934f0979a371p+1), c(magic + 2 * bias));
  const V half = P::fma(y, c(0x1.a934f0979a371p+0), c(magic + bias));
  const V n = shifted - c(magic + 2 * bias);
  const V r = P::fma(n, c(0x1.9dc1da994fd21p-59), P::fma(n, c(-0x1.34413509f79ffp-2), y));
  const V s = P::fma(r, c(-0x1.f48ad494ea3e9p-53), r * c(0x1.26bb1bbb55516p+1));
  return scale_by_halves(exp_of_remainder(s), shifted, half);
}

template <class V>
V expm1(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 710.0), -50.0);
  const V shifted = P::fma(y, c(log2_e), c(magic + bias - 1));
  const V n = shifted - c(magic + bias - 1);
  const V r_high = P::fma(n, c(-ln2_high), y);
  const V r = P::fma(n, c(-ln2_low), r_high);
  const V q = polynomial(r, 0.5, 0x1.5555555555559p-3, 0x1.5555555555556p-5, 0x1.111111110f627p-7,
                         0x1.6c16c16c16267p-10, 0x1.a01a01b022896p-13, 0x1.a01a01a66b301p-16, 0x1.71ddf7a7cee2dp-19,
                         0x1.27e4ddc8861bp-22, 0x1.af6005b016dadp-26, 0x1.1f6ccb2705e76p-29);
  const V lost = P::fma(n, c(-ln2_low), r_high - r);
  const V s = power_of_two(shifted);
  const V a = s - c(0.5), b = s * r;
  const V sum = a + b;
  const V sum_lost = (b - (sum - a)) + ((s - a) - c(0.5));
  const V rest = P::fma(s, P::fma(r * r, q, lost), sum_lost);
  return P::select(P::abs(x) < c(0x1p-60), x, (sum + rest) * c(2.0));
}

}  // namespace tileweave::meaning::f64
