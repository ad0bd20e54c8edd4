// asin, acos, atan and atan2, for f32 and f64.
// Above primitives.h; functions.h dispatches to it by width.
#pragma once

#include "tileweave/jit/base/meaning/primitives.h"

namespace tileweave::meaning {

// What the rounding of root = sqrt(s) lost, to first order.
template <class V>
V root_lost(const V& s, const V& root) {
  using P = Prim<V>;
  const V zero = P::constant(s, 0.0);
  const V lost = P::fma(-root, root, s) / (root + root);
  return P::select(root > zero, lost, zero);
}

}  // namespace tileweave::meaning

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

namespace tileweave::meaning::f64 {

inline constexpr double half_pi_high = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
inline constexpr double tan_eighth_pi = 0x1.a827999fcef32p-2;

// atan(q) for |q| <= tan(pi/8).
template <class V>
V atan_near_zero(const V& q) {
  const V s = q * q;
  const V p = polynomial(s, -0x1.5555555555555p-2, 0x1.99999999997c4p-3, -0x1.249249247e732p-3, 0x1.c71c71bae761fp-4,
                         -0x1.745d15289dedcp-4, 0x1.3b1376b5cff64p-4, -0x1.110ce2840ff4p-4, 0x1.e179af01b9c49p-5,
                         -0x1.abaa774a9a351p-5, 0x1.7195054dc0b56p-5, -0x1.13a0c33b2a675p-5, 0x1.f73d5c243cc52p-7);
  return Prim<V>::fma(q * s, p, q);
}

// atan(numerator / denominator) for 0 <= numerator <= denominator: directly, or as pi/4 less the angle between.
template <class V>
V atan_of_ratio(const V& numerator, const V& denominator) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(numerator, v); };
  const auto is_small = numerator <= denominator * c(tan_eighth_pi);
  const V q = P::select(is_small, numerator, numerator - denominator) /
              P::select(is_small, denominator, numerator + denominator);
  const V t = atan_near_zero(q);
  return P::select(is_small, t, c(half_pi_high / 2) + (t + c(half_pi_low / 2)));
}

template <class V>
V atan(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  // Above 2^60 the angle is pi/2 to the last bit, and sums with 1 stay finite below it.
  const V a = at_most(P::abs(x), 0x1p60);
  const auto is_big = a > c(1.0);
  const V t = atan_of_ratio(P::select(is_big, c(1.0), a), P::select(is_big, a, c(1.0)));
  return copy_sign(P::select(is_big, (c(half_pi_high) - t) + c(half_pi_low), t), x);
}

template <class V>
V atan2(const V& y, const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x), b = P::abs(y);
  const auto is_steep = b > a;
  const V larger = P::select(is_steep, b, a), smaller = P::select(is_steep, a, b);
  const V ratio = P::select(larger == c(0.0), c(0.0), P::select(smaller == c(infinity), c(1.0), smaller / larger));
  const V t = atan_of_ratio(ratio, c(1.0));
  const V first = P::select(is_steep, (c(half_pi_high) - t) + c(half_pi_low), t);
  const auto is_left = (P::bits(x) & P::uint_constant(x, 0x8000000000000000)) != P::uint_constant(x, 0);
  const V angle = P::select(is_left, (c(2 * half_pi_high) - first) + c(2 * half_pi_low), first);
  return P::select(P::logical_or(x != x, y != y), x + y, copy_sign(angle, y));
}

template <class V>
V asin_polynomial(const V& s) {
  return polynomial(s, 0x1.5555555555578p-3, 0x1.333333332df18p-4, 0x1.6db6db722b46fp-5, 0x1.f1c71a8ba80fep-6,
                    0x1.6e8bdfe5598a4p-6, 0x1.1c49de17a5b26p-6, 0x1.ca21423d73e49p-7, 0x1.75779dde73d31p-7,
                    0x1.618a5cfabe5fdp-7, 0x1.e160c73b76e2bp-9, 0x1.650053f9766d4p-6, -0x1.59f424b9a850fp-6,
                    0x1.0be3a9181ab64p-5);
}

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
  const V twice = root + (correction + root_lost(half_gap, root));
  const V right = twice + twice;
  const V left = c(2 * half_pi_high) - (right - c(2 * half_pi_low));
  return P::select(is_big, P::select(x > c(0.0), right, left), middle);
}

}  // namespace tileweave::meaning::f64
