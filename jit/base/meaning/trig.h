// sin, cos and tan over the whole range of angles, for f32 and f64.
// Above primitives.h; functions.h dispatches to it by width.
//
// An angle is written as q pi/2 + r with |r| <= pi/4. Moderate angles: pi/2 in three parts and fma (Cody and Waite).
// Huge ones: a window of the bits of 2/pi chosen by the exponent, times the mantissa, in integers (Payne and Hanek).
#pragma once

#include <initializer_list>

#include "tileweave/jit/base/meaning/primitives.h"

namespace tileweave::meaning::f32 {

// The angle modulo pi/2 in two parts, and in the low two bits the number of quarter turns taken off.
template <class V>
struct Angle {
  V rest, rest_low;
  typename Prim<V>::UInt quarter;
};

inline constexpr double moderate_angle = 0x1p13;

template <class V>
Angle<V> reduce_moderate(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V shifted = P::fma(x, c(0x1.45f306p-1), c(0x1.8p23));
  const V n = shifted - c(0x1.8p23);
  const V first = P::fma(n, c(-0x1.921fb6p+0), x);
  // Two short parts: with fma, first is exact, and so is what rounding r loses.
  const V r = P::fma(n, c(0x1.778p-25), first);
  const V r_low = P::fma(n, c(-0x1.68c234p-39), P::fma(n, c(0x1.778p-25), first - r));
  return {r, r_low, P::bits(shifted)};
}

// For finite x >= 2^13. The product mantissa * (96 bits of 2/pi) has its binary point after two bits; what stands
// above them counts whole turns and is dropped.
template <class V>
Angle<V> reduce_huge(const V& x) {
  using P = Prim<V>;
  using U = typename P::UInt;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto u = [&](std::uint64_t v) { return P::uint_constant(x, v); };
  // A zero word, then the first 224 bits of 2/pi.
  const U words[] = {u(0),          u(0xa2f9836e), u(0x4e441529), u(0xfc2757d1),
                     u(0xf534ddc0), u(0xdb629599), u(0x3c439041), u(0xfe5163ab)};
  const U magnitude = P::bits(x);
  const U mantissa = (magnitude & u(0x007fffff)) | u(0x00800000);
  // Bits to skip: the exponent of the mantissa's unit less 2, counted from the zero word.
  const U skip = P::lshr(magnitude, 23) - u(120);
  const U skipped_words = P::lshr(skip, 5), shift = skip & u(31);
  const auto by_one = (skipped_words & u(1)) != u(0), by_two = (skipped_words & u(2)) != u(0),
             by_four = (skipped_words & u(4)) != u(0);
  U window[4] = {u(0), u(0), u(0), u(0)};
  for (int i = 0; i < 4; ++i) {
    const U low = P::select(by_one, words[i + 1], words[i]);
    const U high = P::select(by_one, words[i + 3], words[i + 2]);
    window[i] = P::select(by_four, words[i + 4 < 8 ? i + 4 : 7], P::select(by_two, high, low));
  }
  const U up = u(32) - shift;
  const U w0 = P::shl(window[0], shift) | P::lshr(window[1], up);
  const U w1 = P::shl(window[1], shift) | P::lshr(window[2], up);
  const U w2 = P::shl(window[2], shift) | P::lshr(window[3], up);
  // The low 96 bits of the product, of which the upper 64 are kept.
  const U middle_low = mantissa * w1, carry_in = P::mul_high(mantissa, w2);
  const U low = middle_low + carry_in;
  const U carry = P::select(low < carry_in, u(1), u(0));
  const U high = mantissa * w0 + P::mul_high(mantissa, w1) + carry;
  const U quarter = P::lshr(high + u(0x20000000), 30);
  // The fraction of a quarter turn, -1/2 to 1/2, in units of 2^-62: summed exactly from pieces of 16 bits.
  const U fraction = high - P::shl(quarter, 30);
  const V top = P::to_float(P::ashr(P::as_signed(fraction), 16)) * c(0x1p-14);
  const V second = P::to_float(P::as_signed(fraction & u(0xffff))) * c(0x1p-30);
  const V third = P::to_float(P::as_signed(P::lshr(low, 16))) * c(0x1p-46);
  const V fourth = P::to_float(P::as_signed(low & u(0xffff))) * c(0x1p-62);
  const V a = top + second, a_lost = second - (a - top);
  const V b = a + third, b_lost = third - (b - a);
  const V lost = a_lost + b_lost + fourth;
  // Times pi/2 in two parts.
  const V r = b * c(0x1.921fb6p+0);
  const V r_lost = P::fma(b, c(0x1.921fb6p+0), -r) + P::fma(lost, c(0x1.921fb6p+0), b * c(-0x1.777a5cp-25));
  const V sum = r + r_lost;
  return {sum, r_lost - (sum - r), quarter};
}

// sin(r + turn pi/2): the sine or the cosine polynomial, and the sign.
template <class V>
V sine_of(const Angle<V>& angle, std::uint64_t turn) {
  using P = Prim<V>;
  const V& r = angle.rest;
  const auto c = [&](double v) { return P::constant(r, v); };
  const auto u = [&](std::uint64_t v) { return P::uint_constant(r, v); };
  const V s = r * r;
  const V sine = r + P::fma(r * s, polynomial(s, -0x1.555546p-3, 0x1.110778p-7, -0x1.9953fep-13), angle.rest_low);
  const V tail = P::fma(s, polynomial(s, 0x1.55554ap-5, -0x1.6c0c2ap-10, 0x1.99e92p-16), c(-0.5));
  const V cosine = c(1.0) + P::fma(s, tail, -(r * angle.rest_low));
  const auto quarter = angle.quarter + u(turn);
  const V value = P::select((quarter & u(1)) == u(0), sine, cosine);
  return P::from_bits(P::bits(value) ^ P::shl(quarter & u(2), 30));
}

// y, negated where x is: odd functions work on |x|, because sums would turn -0 into +0.
template <class V>
V with_sign_flipped_by(const V& y, const V& x) {
  using P = Prim<V>;
  return P::from_bits(P::bits(y) ^ (P::bits(x) & P::uint_constant(x, 0x80000000)));
}

template <class V>
V sin(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V y =
      P::select_rare(a > c(moderate_angle), [&] { return sine_of(reduce_huge(a), 0); }, sine_of(reduce_moderate(a), 0));
  return P::select(a < c(infinity), with_sign_flipped_by(y, x), x - x);
}

template <class V>
V cos(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V y =
      P::select_rare(a > c(moderate_angle), [&] { return sine_of(reduce_huge(a), 1); }, sine_of(reduce_moderate(a), 1));
  return P::select(a < c(infinity), y, x - x);
}

// tan(r), or -1/tan(r) in odd quarters.
template <class V>
V tangent_of(const Angle<V>& angle) {
  using P = Prim<V>;
  const V& r = angle.rest;
  const auto u = [&](std::uint64_t v) { return P::uint_constant(r, v); };
  const V s = r * r;
  const V p = polynomial(s, 0x1.55556p-2, 0x1.110dap-3, 0x1.bad94cp-5, 0x1.5cc5f6p-6, 0x1.62aff4p-7, 0x1.ad6794p-14,
                         0x1.1e6f96p-8);
  const V t = r + P::fma(r * s, p, P::fma(angle.rest_low, s, angle.rest_low));
  return P::select((angle.quarter & u(1)) == u(0), t, P::constant(r, -1.0) / t);
}

template <class V>
V tan(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V y =
      P::select_rare(a > c(moderate_angle), [&] { return tangent_of(reduce_huge(a)); }, tangent_of(reduce_moderate(a)));
  return P::select(a < c(infinity), with_sign_flipped_by(y, x), x - x);
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

template <class V>
struct Angle {
  V rest, rest_low;
  typename Prim<V>::UInt quarter;
};

inline constexpr double moderate_angle = 0x1p20;

template <class V>
Angle<V> reduce_moderate(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V shifted = P::fma(x, c(0x1.45f306dc9c883p-1), c(0x1.8p52));
  const V n = shifted - c(0x1.8p52);
  // The second part of pi/2 has 33 bits, so that what rounding r loses is exact.
  const V first = P::fma(n, c(-0x1.921fb54442d18p+0), x);
  const V r = P::fma(n, c(-0x1.1a626331p-54), first);
  const V r_low = P::fma(n, c(-0x1.1701b839a252p-88), P::fma(n, c(-0x1.1a626331p-54), first - r));
  return {r, r_low, P::bits(shifted)};
}

// For finite x >= 2^20; as in f32 with words of 64 bits.
template <class V>
Angle<V> reduce_huge(const V& x) {
  using P = Prim<V>;
  using U = typename P::UInt;
  const auto c = [&](double v) { return P::constant(x, v); };
  const auto u = [&](std::uint64_t v) { return P::uint_constant(x, v); };
  // A zero word, then the first 1216 bits of 2/pi.
  constexpr std::uint64_t two_over_pi[20] = {0,
                                             0xa2f9836e4e441529,
                                             0xfc2757d1f534ddc0,
                                             0xdb6295993c439041,
                                             0xfe5163abdebbc561,
                                             0xb7246e3a424dd2e0,
                                             0x06492eea09d1921c,
                                             0xfe1deb1cb129a73e,
                                             0xe88235f52ebb4484,
                                             0xe99c7026b45f7e41,
                                             0x3991d639835339f4,
                                             0x9c845f8bbdf9283b,
                                             0x1ff897ffde05980f,
                                             0xef2f118b5a0a6d1f,
                                             0x6d367ecf27cb09b7,
                                             0x4f463f669e5fea2d,
                                             0x7527bac7ebe5f17b,
                                             0x3d0739f78a5292ea,
                                             0x6bfb5fb11f8d5d08,
                                             0x56033046fc7b6bab};
  const U magnitude = P::bits(x);
  const U mantissa = (magnitude & u(0x000fffffffffffff)) | u(0x0010000000000000);
  const U skip = P::lshr(magnitude, 52) - u(1013);
  const U skipped_words = P::lshr(skip, 6), shift = skip & u(63);
  // The four words from number skipped_words (0 to 16) on: moved down by 8, 4, 2 and 1 as its bits say, or by 16.
  U words[11] = {u(0), u(0), u(0), u(0), u(0), u(0), u(0), u(0), u(0), u(0), u(0)};
  for (int i = 0; i < 11; ++i) {
    words[i] = P::select((skipped_words & u(8)) != u(0), u(two_over_pi[i + 8]), u(two_over_pi[i]));
  }
  int kept = 11;
  for (const int step : {4, 2, 1}) {
    const auto moves = (skipped_words & u(static_cast<std::uint64_t>(step))) != u(0);
    kept -= step;
    for (int i = 0; i < kept; ++i) words[i] = P::select(moves, words[i + step], words[i]);
  }
  const auto is_last = (skipped_words & u(16)) != u(0);
  for (int i = 0; i < 4; ++i) words[i] = P::select(is_last, u(two_over_pi[i + 16]), words[i]);
  const U up = u(64) - shift;
  const U w0 = P::shl(words[0], shift) | P::lshr(words[1], up);
  const U w1 = P::shl(words[1], shift) | P::lshr(words[2], up);
  const U w2 = P::shl(words[2], shift) | P::lshr(words[3], up);
  const U middle_low = mantissa * w1, carry_in = P::mul_high(mantissa, w2);
  const U low = middle_low + carry_in;
  const U carry = P::select(low < carry_in, u(1), u(0));
  const U high = mantissa * w0 + P::mul_high(mantissa, w1) + carry;
  const U quarter = P::lshr(high + u(0x2000000000000000), 62);
  const U fraction = high - P::shl(quarter, 62);
  const V top = P::to_float(P::ashr(P::as_signed(fraction), 32)) * c(0x1p-30);
  const V second = P::to_float(P::as_signed(fraction & u(0xffffffff))) * c(0x1p-62);
  const V third = P::to_float(P::as_signed(P::lshr(low, 32))) * c(0x1p-94);
  const V fourth = P::to_float(P::as_signed(low & u(0xffffffff))) * c(0x1p-126);
  const V a = top + second, a_lost = second - (a - top);
  const V b = a + third, b_lost = third - (b - a);
  const V lost = a_lost + b_lost + fourth;
  const V r = b * c(0x1.921fb54442d18p+0);
  const V r_lost =
      P::fma(b, c(0x1.921fb54442d18p+0), -r) + P::fma(lost, c(0x1.921fb54442d18p+0), b * c(0x1.1a62633145c07p-54));
  const V sum = r + r_lost;
  return {sum, r_lost - (sum - r), quarter};
}

template <class V>
struct SineAndCosine {
  V sine, cosine;
};
template <class V>
SineAndCosine<V> sine_and_cosine(const Angle<V>& angle) {
  using P = Prim<V>;
  const V& r = angle.rest;
  const auto c = [&](double v) { return P::constant(r, v); };
  const V s = r * r;
  const V p = polynomial(s, -0x1.5555555555555p-3, 0x1.1111111111069p-7, -0x1.a01a019ffe522p-13, 0x1.71de3a33a5475p-19,
                         -0x1.ae642c5126d28p-26, 0x1.6109bce9d2cfep-33, -0x1.9ffd12413beb2p-41);
  const V q = polynomial(s, 0x1.555555555554bp-5, -0x1.6c16c16c15014p-10, 0x1.a01a019c8ef72p-16, -0x1.27e4f7f1630eep-22,
                         0x1.1ee9dba80dc0ep-29, -0x1.8fa66cfdac262p-37);
  // 1 - s/2 in two parts: s/2 reaches 0.3.
  const V half = s * c(0.5), near = c(1.0) - half, near_lost = (c(1.0) - near) - half;
  return {r + P::fma(r * s, p, angle.rest_low), near + (P::fma(s * s, q, near_lost) - r * angle.rest_low)};
}

template <class V>
V sine_of(const Angle<V>& angle, std::uint64_t turn) {
  using P = Prim<V>;
  const auto u = [&](std::uint64_t v) { return P::uint_constant(angle.rest, v); };
  const SineAndCosine<V> both = sine_and_cosine(angle);
  const auto quarter = angle.quarter + u(turn);
  const V value = P::select((quarter & u(1)) == u(0), both.sine, both.cosine);
  return P::from_bits(P::bits(value) ^ P::shl(quarter & u(2), 62));
}

template <class V>
V tangent_of(const Angle<V>& angle) {
  using P = Prim<V>;
  const auto u = [&](std::uint64_t v) { return P::uint_constant(angle.rest, v); };
  const SineAndCosine<V> both = sine_and_cosine(angle);
  const auto is_odd = (angle.quarter & u(1)) != u(0);
  return P::select(is_odd, -both.cosine, both.sine) / P::select(is_odd, both.sine, both.cosine);
}

template <class V>
V with_sign_flipped_by(const V& y, const V& x) {
  using P = Prim<V>;
  return P::from_bits(P::bits(y) ^ (P::bits(x) & P::uint_constant(x, 0x8000000000000000)));
}

template <class V>
V sin(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V y =
      P::select_rare(a > c(moderate_angle), [&] { return sine_of(reduce_huge(a), 0); }, sine_of(reduce_moderate(a), 0));
  return P::select(a < c(infinity), with_sign_flipped_by(y, x), x - x);
}

template <class V>
V cos(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V y =
      P::select_rare(a > c(moderate_angle), [&] { return sine_of(reduce_huge(a), 1); }, sine_of(reduce_moderate(a), 1));
  return P::select(a < c(infinity), y, x - x);
}

template <class V>
V tan(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = P::abs(x);
  const V y =
      P::select_rare(a > c(moderate_angle), [&] { return tangent_of(reduce_huge(a)); }, tangent_of(reduce_moderate(a)));
  return P::select(a < c(infinity), with_sign_flipped_by(y, x), x - x);
}

}  // namespace tileweave::meaning::f64
