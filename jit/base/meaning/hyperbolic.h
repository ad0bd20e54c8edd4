// tanh, sinh and cosh, for f32 and f64.
// Above exp.h; functions.h dispatches to it by width.
#pragma once

#include "tileweave/jit/base/meaning/exp.h"

namespace tileweave::meaning::f32 {

// An odd polynomial up to 5/8, beyond it 1 - 2 / (exp(2|x|) + 1).
template <class V>
V tanh(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V s = a * a;
  const V t = polynomial(s, -0x1.55553ep-2, 0x1.1109bep-3, -0x1.b89abap-5, 0x1.54c3c2p-6, -0x1.828776p-8);
  const V small = P::fma(a * s, t, a);
  const V b = at_most(a, 9.5);
  const V shifted = P::fma(b, c(2 * log2_e), c(magic + bias));
  const V n = shifted - c(magic + bias);
  const V r = P::fma(n, c(-ln2_low / 2), P::fma(n, c(-ln2_high / 2), b));
  // exp(2r): the coefficients of exp_of_remainder with powers of two.
  const V p = polynomial(r, 1.0, 2.0, 0x1.fffffcp+0, 0x1.555492p+0, 0x1.5558bp-1, 0x1.12399cp-2, 0x1.6a4ecap-4);
  const V large = c(1.0) - c(2.0) / P::fma(p, power_of_two(shifted), c(1.0));
  return copy_sign(P::select(a < c(0.625), small, large), x);
}

// exp(|x|) / 2, which does not overflow before sinh and cosh do.
template <class V>
V half_exp_of_abs(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_most(P::abs(x), 90.0);
  const V shifted = P::fma(y, c(log2_e), c(magic + bias - 2));
  const V n = shifted - c(magic + bias - 2);
  const V r = P::fma(n, c(-ln2_low), P::fma(n, c(-ln2_high), y));
  return exp_of_remainder(r) * power_of_two(shifted) * c(2.0);
}

template <class V>
V sinh(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V s = a * a;
  const V small = P::fma(a * s, polynomial(s, 0x1.555556p-3, 0x1.1110ep-7, 0x1.a022bcp-13, 0x1.756c1ep-19), a);
  const V h = half_exp_of_abs(x);
  return copy_sign(P::select(a < c(1.0), small, h - c(0.25) / h), x);
}

template <class V>
V cosh(const V& x) {
  const V h = half_exp_of_abs(x);
  return h + Prim<V>::constant(x, 0.25) / h;
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

template <class V>
V half_exp_of_abs(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_most(P::abs(x), 711.0);
  const V shifted = P::fma(y, c(log2_e), c(magic + bias - 4));
  const V n = shifted - c(magic + bias - 4);
  const V r = P::fma(n, c(-ln2_low), P::fma(n, c(-ln2_high), y));
  return exp_of_remainder(r) * power_of_two(shifted) * c(8.0);
}

// By e = exp(2|x|) - 1: tanh = e / (e + 2).
template <class V>
V tanh(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 25.0);
  const V e = f64::expm1(a + a);
  return copy_sign(P::select(a < c(0x1p-30), a, e / (e + c(2.0))), x);
}

// By e = exp(|x|) - 1 up to 1: sinh = (e + e / (e + 1)) / 2.
template <class V>
V sinh(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V e = f64::expm1(at_most(a, 1.0));
  const V small = P::select(a < c(0x1p-30), a, c(0.5) * (e + e / (e + c(1.0))));
  const V h = half_exp_of_abs(x);
  return copy_sign(P::select(a < c(1.0), small, h - c(0.25) / h), x);
}

template <class V>
V cosh(const V& x) {
  const V h = half_exp_of_abs(x);
  return h + Prim<V>::constant(x, 0.25) / h;
}

}  // namespace tileweave::meaning::f64
