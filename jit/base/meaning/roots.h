// rsqrt, cbrt and hypot, for f32 and f64 (sqrt itself is a primitive).
// Above primitives.h; functions.h dispatches to it by width.
#pragma once

#include "tileweave/jit/base/meaning/primitives.h"

namespace tileweave::meaning {

// 1 / sqrt(x), both correctly rounded; rsqrt(-0) is -inf.
template <class V>
V rsqrt(const V& x) {
  return Prim<V>::constant(x, 1.0) / Prim<V>::sqrt(x);
}

}  // namespace tileweave::meaning

namespace tileweave::meaning::f32 {

// y = |x|^(-1/3) by three Newton steps from a guess in the exponent, then x y^2 and one correction with an exact
// square.
template <class V>
V cbrt(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto u = [&](std::uint64_t v) { return P::uint_constant(x, v); };
  const V a = P::abs(x);
  const auto is_small = a < c(0x1p-100);
  const V b = P::select(is_small, a * c(0x1p48), a);
  // bits / 3: 0x55555556 / 2^32 is a third.
  V y = P::from_bits(u(0x548c2b4b) - P::mul_high(P::bits(b), u(0x55555556)));
  const V third = c(0x1.555556p-2);
  for (int step = 0; step < 3; ++step) {
    const V e = P::fma(-(b * y * y), y, c(1.0));
    y = P::fma(y * third, e, y);
  }
  const V root = b * y * y;
  const V square = root * root;
  const V excess = P::fma(square, root, -b) + P::fma(root, root, -square) * root;
  const V better = P::fma(-(excess * third), y * y, root);
  const V scaled = P::select(is_small, better * c(0x1p-16), better);
  const auto is_ordinary = P::logical_and(a > c(0.0), a < c(infinity));
  return P::select(is_ordinary, copy_sign(scaled, x), x);
}

// sqrt(x^2 + y^2) without overflow or underflow inside; inf beats NaN, as in C.
template <class V>
V hypot(const V& x, const V& y) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x), b = P::abs(y);
  const V larger = P::select(b > a, b, a), smaller = P::select(b > a, a, b);
  const auto is_big = larger > c(0x1p60), is_small = larger < c(0x1p-60);
  const V down = P::select(is_big, c(0x1p-70), P::select(is_small, c(0x1p90), c(1.0)));
  const V up = P::select(is_big, c(0x1p70), P::select(is_small, c(0x1p-90), c(1.0)));
  const V p = larger * down, q = smaller * down;
  // The squares in two parts each: one rounding before the root.
  const V square = p * p, lost = P::fma(p, p, -square);
  const V sum = P::fma(q, q, square);
  const V sum_lost = P::fma(q, q, square - sum) + lost;
  const V root = P::sqrt(sum + sum_lost) * up;
  const auto has_infinity = P::logical_or(a == c(infinity), b == c(infinity));
  return P::select(has_infinity, c(infinity), root);
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

template <class V>
V cbrt(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto u = [&](std::uint64_t v) { return P::uint_constant(x, v); };
  const V a = P::abs(x);
  const auto is_small = a < c(0x1p-960);
  const V b = P::select(is_small, a * c(0x1p180), a);
  V y = P::from_bits(u(0x553c30140aaaaaaa) - P::mul_high(P::bits(b), u(0x5555555555555556)));
  const V third = c(0x1.5555555555555p-2);
  for (int step = 0; step < 4; ++step) {
    const V e = P::fma(-(b * y * y), y, c(1.0));
    y = P::fma(y * third, e, y);
  }
  const V root = b * y * y;
  const V square = root * root;
  const V excess = P::fma(square, root, -b) + P::fma(root, root, -square) * root;
  const V better = P::fma(-(excess * third), y * y, root);
  const V scaled = P::select(is_small, better * c(0x1p-60), better);
  const auto is_ordinary = P::logical_and(a > c(0.0), a < c(infinity));
  return P::select(is_ordinary, copy_sign(scaled, x), x);
}

template <class V>
V hypot(const V& x, const V& y) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x), b = P::abs(y);
  const V larger = P::select(b > a, b, a), smaller = P::select(b > a, a, b);
  const auto is_big = larger > c(0x1p500), is_small = larger < c(0x1p-450);
  const V down = P::select(is_big, c(0x1p-600), P::select(is_small, c(0x1p650), c(1.0)));
  const V up = P::select(is_big, c(0x1p600), P::select(is_small, c(0x1p-650), c(1.0)));
  const V p = larger * down, q = smaller * down;
  const V square = p * p, lost = P::fma(p, p, -square);
  const V sum = P::fma(q, q, square);
  const V sum_lost = P::fma(q, q, square - sum) + lost;
  const V root = P::sqrt(sum + sum_lost) * up;
  const auto has_infinity = P::logical_or(a == c(infinity), b == c(infinity));
  return P::select(has_infinity, c(infinity), root);
}

}  // namespace tileweave::meaning::f64
