// The error functions erf and erfc, and the scaled tail that gelu shares, for f32 and f64.
// Above exp.h; functions.h dispatches to it by width.
//
// Tails keep their relative accuracy: erfc(a) = exp(-a^2) * X(a), where X falls only like 1/a and is a quotient of
// polynomials with positive coefficients (so that Horner's rule loses little), and a^2 is carried in two parts.
#pragma once

#include "tileweave/jit/base/meaning/exp.h"

namespace tileweave::meaning::f32 {

// (factor + factor_lost) * exp(-h) * 2^64 where h = (square + square_lost) * unit; 2^64 keeps the power normal down to
// exp(-h) = 2^-190. unit: 1 or 1/2, exactly.
template <class V>
V times_exp_of_minus(const V& factor, const V& factor_lost, const V& square, const V& square_lost, double unit) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(square, v); };
  const V shifted = P::fma(square, c(-log2_e * unit), c(magic + bias + 64));
  const V n = shifted - c(magic + bias + 64);
  // The remainder is kept as -r / unit, which saves scaling the square.
  const V r = P::fma(n, c(ln2_high / unit), square) + P::fma(n, c(ln2_low / unit), square_lost);
  const double u = -unit;
  // (exp - 1) / r, the 1 left to the last step: factor + (factor r) q rounds once.
  const V q = polynomial(r, u, 0x1.fffffcp-2 * u * u, 0x1.555492p-3 * u * u * u, 0x1.5558bp-5 * u * u * u * u,
                         0x1.12399cp-7 * u * u * u * u * u, 0x1.6a4ecap-10 * u * u * u * u * u * u);
  return (factor + P::fma(factor * r, q, factor_lost)) * power_of_two(shifted);
}

// erf by an odd polynomial up to 1, beyond it as 1 - 2^-p(|x|).
template <class V>
V erf(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V s = a * a;
  const V small = P::fma(a,
                         polynomial(s, 0x1.06eba8p-3, -0x1.81274p-2, 0x1.ce2d48p-4, -0x1.b7fdb2p-6, 0x1.5425bp-8,
                                    -0x1.a4c72p-11, 0x1.4b6eb2p-14),
                         a);
  const V b = at_most(a, 3.9375);
  const V y = polynomial(b, -0x1.1d1b0ap-12, 0x1.a13014p+0, 0x1.d3bb4ap-1, 0x1.405916p-3, -0x1.29f32p-5, 0x1.8d9adep-8,
                         -0x1.4deec6p-11, 0x1.069c48p-15);
  const V shifted = c(magic + bias) - y;
  const V r = y + (shifted - c(magic + bias));  // -y = n - r
  const V p = polynomial(r, 1.0, -0x1.62e42ap-1, 0x1.ebf9cp-3, -0x1.c6b6d8p-5, 0x1.3ce984p-7, -0x1.5bdb76p-10);
  const V large = P::fma(-p, power_of_two(shifted), c(1.0));
  return copy_sign(P::select(a < c(1.0), small, large), x);
}

// exp(-a^2) X(a) for a >= 0, and 2 - erfc(-a) below.
template <class V>
V erfc(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 10.1875);
  const V s = a * a;
  // erfc(a) exp(a^2): near zero p(a - 0.8125), far from it p(1/a) / a.
  const V z = a - c(0.8125), center = c(0x1.f0724p-2);
  const V near_tail = polynomial(z, -0x1.5cbc2ep-2, 0x1.aa32d6p-3, -0x1.d43df4p-4, 0x1.d7e59p-5, -0x1.ba923p-6,
                                 0x1.872e5p-7, -0x1.41e622p-8, 0x1.dccf8cp-10, -0x1.be7bf2p-11, 0x1.ceea34p-12);
  const V near = P::fma(z, near_tail, center), near_lost = P::fma(z, near_tail, center - near);
  const V inverse = c(1.0) / a;
  const V tail = polynomial(inverse, -0x1.5a4848p-12, -0x1.1b6b92p-2, -0x1.800be6p-5, 0x1.56169ep-1, -0x1.7cb108p-1,
                            -0x1.39ebc6p-5, 0x1.9abc24p-1, -0x1.6f89bcp-1, 0x1.bda97ep-3);
  const V p = P::fma(inverse, tail, c(0x1.20de96p-1)), p_lost = P::fma(inverse, tail, c(0x1.20de96p-1) - p);
  const V far = p * inverse, far_lost = (P::fma(-far, a, p) + p_lost) * inverse;
  const auto is_near = a < c(1.4375);
  const V factor = P::select(is_near, near, far), factor_lost = P::select(is_near, near_lost, far_lost);
  const V scaled = times_exp_of_minus(factor, factor_lost, s, P::fma(a, a, -s), 1.0);
  // The last product is the one that may round into the denormals.
  return P::select(x < c(0.0), P::fma(scaled, c(-0x1p-64), c(2.0)), scaled * c(0x1p-64));
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

// factor * exp(-square - square_lost) * 2^512 for square up to 800: 2^512 keeps the power normal.
template <class V>
V times_exp_of_minus(const V& factor, const V& square, const V& square_lost) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(square, v); };
  const V shifted = P::fma(square, c(-log2_e), c(magic + bias + 512));
  const V n = shifted - c(magic + bias + 512);
  const V r = -(P::fma(n, c(ln2_low), P::fma(n, c(ln2_high), square)) + square_lost);
  const V q = polynomial(r, 1.0, 0.5, 0x1.555555555555bp-3, 0x1.5555555555542p-5, 0x1.111111110ee5cp-7,
                         0x1.6c16c16c20d34p-10, 0x1.a01a01b2ba589p-13, 0x1.a01a016bb93aap-16, 0x1.71ddf1f2b098fp-19,
                         0x1.27e5604938106p-22, 0x1.af68eced4b209p-26, 0x1.1ea10a0d44b8bp-29);
  return P::fma(factor * r, q, factor) * power_of_two(shifted);
}

// erfc(a) exp(a^2) for 0 <= a <= 27.5 as a quotient.
template <class V>
V erfc_quotient(const V& a) {
  const V s = a * a;
  const V numerator =
      paired_polynomial(a, s, 0x1p+0, 0x1.2bbcf5824d63p+1, 0x1.5bf469b59c4fbp+1, 0x1.02bd96d29ac9bp+1,
                        0x1.0e6cd0a2492cp+0, 0x1.9d36174e41f7p-2, 0x1.d2cb8f1db3d2fp-4, 0x1.81718a6bd30b5p-6,
                        0x1.befd62de2e328p-9, 0x1.4b069ce3fada2p-12, 0x1.e16c6a584a9cbp-17);
  const V denominator =
      paired_polynomial(a, s, 0x1p+0, 0x1.bc2bb004623e7p+1, 0x1.6892e63c578ecp+2, 0x1.6a4b0ae2c82e9p+2,
                        0x1.f5cd319dee697p+1, 0x1.f867e04179001p+0, 0x1.78bafd9201311p-1, 0x1.a3d9990f39726p-3,
                        0x1.57e1e06a45b6bp-5, 0x1.8cf7ba74ffbcdp-8, 0x1.255d2f6c2b89cp-11, 0x1.aaa684f3f9733p-16);
  return numerator / denominator;
}

// erfc(a) * 2^512 for 0 <= a <= 27.5.
template <class V>
V scaled_erfc(const V& a) {
  const V square = a * a;
  return times_exp_of_minus(erfc_quotient(a), square, Prim<V>::fma(a, a, -square));
}

template <class V>
V erf(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V s = a * a;
  const V p = polynomial(s, 0x1.06eba8214db69p-3, -0x1.812746b0379e7p-2, 0x1.ce2f21a042b88p-4, -0x1.b82ce31285a1bp-6,
                         0x1.565bcd0dbdd9fp-8, -0x1.c02db3d96cd9bp-11, 0x1.f9a321a11726bp-14, -0x1.f4d1df27769bap-17,
                         0x1.b9def1995c1e6p-20, -0x1.5f1d36a3432d6p-23, 0x1.f7a41127b3015p-27, -0x1.386cbe3634aap-30,
                         0x1.058f112169862p-34);
  const V small = P::fma(a, p, a);
  const V large = P::fma(scaled_erfc(at_most(a, 6.0)), c(-0x1p-512), c(1.0));
  return copy_sign(P::select(a < c(1.0), small, large), x);
}

template <class V>
V erfc(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V scaled = scaled_erfc(at_most(P::abs(x), 27.5));
  return P::select(x < c(0.0), P::fma(scaled, c(-0x1p-512), c(2.0)), scaled * c(0x1p-512));
}

}  // namespace tileweave::meaning::f64
