// asin, acos, atan and atan2, for f32 and f64.
// Above primitives.h; functions.h dispatches to it by width.
#pragma once

#include "tileweave/jit/base/meaning/primitives.h"

namespace tileweave::meaning::f32 {

// pi/2 and pi in two parts.
inline constexpr double half_pi_high = 0x1.921fb6p+0, half_pi_low = -0x1.777a5cp-25;

// atan(a) for 0 <= a <= 1 as a + a s p(s).
template <class V>
V atan_up_to_one(const V& a) {
  const V s = a * a;
  const V p = polynomial(s, -0x1.55553ep-2, 0x1.9991e4p-3, -0x1.242086p-3, 0x1.c08c5p-4, -0x1.58093p-4, 0x1.da2aa6p-5,
                         -0x1.fd803cp-6, 0x1.642888p-7, -0x1.d363d8p-10);
  return Prim<V>::fma(a * s, p, a);
}

template <class V>
V atan(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const auto is_big = a > c(1.0);
  const V t = atan_up_to_one(P::select(is_big, c(1.0) / a, a));
  return copy_sign(P::select(is_big, (c(half_pi_high) - t) + c(half_pi_low), t), x);
}

// The angle of the point (x, y), with C's results on the axes and at infinity.
template <class V>
V atan2(const V& y, const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x), b = P::abs(y);
  const auto is_steep = b > a;
  const V larger = P::select(is_steep, b, a), smaller = P::select(is_steep, a, b);
  const V ratio = P::select(larger == c(0.0), c(0.0), P::select(smaller == c(infinity), c(1.0), smaller / larger));
  const V t = atan_up_to_one(ratio);
  const V first = P::select(is_steep, (c(half_pi_high) - t) + c(half_pi_low), t);
  // A negative x, -0 included, mirrors the angle.
  const auto is_left = (P::bits(x) & P::uint_constant(x, 0x80000000)) != P::uint_constant(x, 0);
  const V angle = P::select(is_left, (c(2 * half_pi_high) - first) + c(2 * half_pi_low), first);
  return P::select(P::logical_or(x != x, y != y), x + y, copy_sign(angle, y));
}

// (asin(t) - t) / (t s) for s = t^2 up to 1/4.
template <class V>
V asin_polynomial(const V& s) {
  return polynomial(s, 0x1.55554cp-3, 0x1.3338acp-4, 0x1.6ca754p-5, 0x1.04d2dep-5, 0x1.d5251cp-7, 0x1.34c35p-5);
}

// The root of s in two parts: what the rounding of the root lost, to first order.
template <class V>
V root_lost(const V& s, const V& root) {
  using P = Prim<V>;
  const V zero = P::constant(s, 0.0);
  const V lost = P::fma(-root, root, s) / (root + root);
  return P::select(root > zero, lost, zero);
}

// Up to 1/2 the polynomial; beyond, pi/2 - 2 asin(sqrt((1 - |x|) / 2)). |x| > 1 gives NaN by way of the root.
template <class V>
V asin(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const auto is_big = a > c(0.5);
  const V half_gap = P::fma(a, c(-0.5), c(0.5));
  const V root = P::sqrt(half_gap);
  const V s = P::select(is_big, half_gap, a * a);
  const V t = P::select(is_big, root, a);
  const V correction = t * s * asin_polynomial(s);
  const V near_one =
      P::fma(root, c(-2.0), c(half_pi_high)) + P::fma(correction + root_lost(half_gap, root), c(-2.0), c(half_pi_low));
  return copy_sign(P::select(is_big, near_one, t + correction), x);
}

template <class V>
V acos(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const auto is_big = a > c(0.5);
  const V half_gap = P::fma(a, c(-0.5), c(0.5));
  const V root = P::sqrt(half_gap);
  const V s = P::select(is_big, half_gap, a * a);
  const V t = P::select(is_big, root, x);
  const V correction = t * s * asin_polynomial(s);
  const V middle = c(half_pi_high) - (t + (correction - c(half_pi_low)));
  // x > 1/2: 2 asin(root); x < -1/2: pi less that.
  const V twice = root + (correction + root_lost(half_gap, root));
  const V right = twice + twice;
  const V left = c(2 * half_pi_high) - (right - c(2 * half_pi_low));
  return P::select(is_big, P::select(x > c(0.0), right, left), middle);
}

}  // namespace tileweave::meaning::f32
