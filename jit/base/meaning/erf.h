// The error functions erf and erfc, and the scaled tail that gelu shares, for f32 and f64.
// Above exp.h; functions.h dispatches to it by width.
//
// Tails keep their relative accuracy: erfc(a) = exp(-a^2) * X(a), where X falls only like 1/a and is a quotient of
// polynomials with positive coefficients (so that Horner's rule loses little), and a^2 is carried in two parts.
#pragma once

#include "tileweave/jit/base/meaning/exp.h"

namespace tileweave::meaning::f32 {

// exp(-h) * 2^64 where h = square * unit + rest; 2^64 keeps the power normal down to exp(-h) = 2^-190.
// unit: 1 or 1/2, exactly.
template <class V>
V exp_of_minus_square(const V& square, const V& square_lost, double unit) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(square, v); };
  const V shifted = P::fma(square, c(-log2_e * unit), c(magic + bias + 64));
  const V n = shifted - c(magic + bias + 64);
  // The remainder is kept as -r / unit, which saves scaling the square.
  const V r = P::fma(n, c(ln2_low / unit), P::fma(n, c(ln2_high / unit), square)) + square_lost;
  const double u = -unit;
  const V p = polynomial(r, 1.0, u, 0x1.fffffcp-2 * u * u, 0x1.555492p-3 * u * u * u, 0x1.5558bp-5 * u * u * u * u,
                         0x1.12399cp-7 * u * u * u * u * u, 0x1.6a4ecap-10 * u * u * u * u * u * u);
  return p * power_of_two(shifted);
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
  const V b = at_most(a, 3.95);
  const V y = polynomial(b, -0x1.1d1b0ap-12, 0x1.a13014p+0, 0x1.d3bb4ap-1, 0x1.405916p-3, -0x1.29f32p-5, 0x1.8d9adep-8,
                         -0x1.4deec6p-11, 0x1.069c48p-15);
  const V shifted = c(magic + bias) - y;
  const V r = y + (shifted - c(magic + bias));  // -y = n - r
  const V p = polynomial(r, 1.0, -0x1.62e42ap-1, 0x1.ebf9cp-3, -0x1.c6b6d8p-5, 0x1.3ce984p-7, -0x1.5bdb76p-10);
  const V large = P::fma(-p, power_of_two(shifted), c(1.0));
  return copy_sign(P::select(a < c(1.0), small, large), x);
}

// erfc(a) = exp(-a^2) P(a)/Q(a) for a >= 0, and 2 - erfc(-a) below.
template <class V>
V erfc(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 10.2);
  const V square = a * a;
  const V e = exp_of_minus_square(square, P::fma(a, a, -square), 1.0);
  const V numerator = polynomial(a, 1.0, 0x1.3d401ep+0, 0x1.77097ep-1, 0x1.d64f52p-3, 0x1.0d6674p-5);
  const V denominator = polynomial(a, 1.0, 0x1.2f0ecep+1, 0x1.33b8e2p+1, 0x1.53b846p+0, 0x1.a0d3ecp-2, 0x1.dd7e6ep-5);
  const V scaled = e * numerator / denominator;
  // The last product is the one that may round into the denormals.
  return P::select(x < c(0.0), P::fma(scaled, c(-0x1p-64), c(2.0)), scaled * c(0x1p-64));
}

}  // namespace tileweave::meaning::f32
