// pow(x, y), for f32 and f64, with every special case of C.
// Above exp.h and log.h; functions.h dispatches to it by width.
//
// log2 |x| is computed in two parts, because y multiplies its error by up to 128 (f32) or 1024 (f64).
#pragma once

#include "tileweave/jit/base/meaning/exp.h"
#include "tileweave/jit/base/meaning/log.h"
#include "tileweave/jit/base/meaning/two_parts.h"

namespace tileweave::meaning {

// From |x|^y to x^y: signs, poles and the cases that C defines.
template <class V>
V pow_cases(const V& x, const V& y, const V& magnitude) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x), half = y * c(0.5);
  const auto is_integer = P::trunc(y) == y;
  const auto is_odd = P::logical_and(is_integer, P::trunc(half) != half);
  const V flipped = P::select(is_odd, copy_sign(P::select(a == c(1.0), c(1.0), magnitude), x),
                              P::select(a == c(1.0), c(1.0), magnitude));
  // A negative base with an exponent that is no integer; -inf behaves like its magnitude.
  const auto is_undefined = P::logical_and(P::logical_and(x < c(0.0), a < c(infinity)), P::logical_not(is_integer));
  const V defined = P::select(is_undefined, c(not_a_number), flipped);
  const V numbers = P::select(P::logical_or(x != x, y != y), x + y, defined);
  return P::select(P::logical_or(x == c(1.0), y == c(0.0)), c(1.0), numbers);
}

}  // namespace tileweave::meaning

namespace tileweave::meaning::f32 {

// log2 of a positive finite x: e + 2/ln2 (s + s^3 g(s^2)) with s = (m - 1) / (m + 1).
template <class V>
TwoParts<V> log2_in_two_parts(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto [e, f] = log_parts(x);
  const auto [d, d_low] = sum_of(c(2.0), f);
  const V inverse = c(1.0) / d;
  const V s = f * inverse;
  const V s_low = P::fma(-s, d_low, P::fma(-s, d, f)) * inverse;
  const V t = s * s;
  const V t_low = P::fma(s + s, s_low, P::fma(s, s, -t));
  const V tail = P::fma(t, polynomial(t, 0x1.27770ep-1, 0x1.a5bbfap-2, 0x1.59ee06p-2), c(-0x1.e2fe02p-28));
  const auto [g, g_low] = sum_of(c(0x1.ec709ep-1), tail);
  const auto [cube, cube_lost] = product_of(s, t);
  const V cube_low = P::fma(s, t_low, P::fma(s_low, t, cube_lost));
  const auto [b, b_lost] = product_of(cube, g);
  const V b_low = P::fma(cube, g_low, P::fma(cube_low, g, b_lost));
  const auto [a, a_lost] = product_of(s, c(0x1.715476p+1));
  const V a_low = P::fma(s, c(0x1.4ae0cp-25), P::fma(s_low, c(0x1.715476p+1), a_lost));
  const auto [first, first_lost] = sum_of(e, a);
  const auto [second, second_lost] = sum_of(first, b);
  return sum_of(second, (first_lost + second_lost) + (a_low + b_low));
}

template <class V>
V pow(const V& x, const V& y) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const auto log = log2_in_two_parts(a);
  const V log_high = P::select(a == c(0.0), c(-infinity), P::select(a == c(infinity), a, log.high));
  const V high = y * log_high;
  const V low = P::select(P::abs(high) < c(256.0), P::fma(y, log.low, P::fma(y, log_high, -high)), c(0.0));
  const V z = at_least(at_most(high, 129.0), -151.0);
  const V shifted = z + c(magic + 254);
  const V half = P::fma(z, c(0.5), c(magic + bias));
  const V r = (z - (shifted - c(magic + 254))) + low;
  const V p = exp2_of_remainder(r);
  return pow_cases(x, y, scale_by_halves(p, shifted, half));
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

template <class V>
V pow(const V& x, const V& y) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const auto log = log2_in_two_parts(a);
  const V log_high = P::select(a == c(0.0), c(-infinity), P::select(a == c(infinity), a, log.high));
  const V high = y * log_high;
  const V low = P::select(P::abs(high) < c(2048.0), P::fma(y, log.low, P::fma(y, log_high, -high)), c(0.0));
  return pow_cases(x, y, exp2_of_parts(high, low));
}

}  // namespace tileweave::meaning::f64
