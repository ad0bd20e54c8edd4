// The activations of neural networks: relu, sigmoid, silu, softplus and the three forms of gelu, for f32 and f64.
// Above exp.h and erf.h; functions.h dispatches to it by width.
//
// All are accurate relative to the result far into their tails, down to the denormals; none ever gives a NaN for a
// number. They are on the hot path of fused kernels: straight arithmetic with at most one division.
#pragma once

#include "tileweave/jit/base/meaning/erf.h"
#include "tileweave/jit/base/meaning/log.h"

namespace tileweave::meaning {

// max(x, 0), keeping NaN; relu(-0) is +0.
template <class V>
V relu(const V& x) {
  const V zero = Prim<V>::constant(x, 0.0);
  return Prim<V>::select(x <= zero, zero, x);
}

}  // namespace tileweave::meaning

namespace tileweave::meaning::f32 {

// 2^-32 (1 + exp(z)) for z from -60 to 110; scaled so that no exp overflows. `low` is added to z.
template <class V>
struct ScaledPower {
  V shifted, remainder;
  // (1 + 2^n) + 2^n (exp(r) - 1): the large sum loses nothing, where 1 + 2^n exp(r) would round twice.
  V plus_one() const {
    using P = Prim<V>;
    const V& r = remainder;
    const V q = polynomial(r, 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558bp-5, 0x1.12399cp-7, 0x1.6a4ecap-10);
    const V power = power_of_two(shifted);
    const V one = P::constant(r, 0x1p-32), sum = power + one, sum_lost = one - (sum - power);
    return sum + P::fma(power, P::fma(r * r, q, r), sum_lost);
  }
};
template <class V>
ScaledPower<V> scaled_power(const V& z) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(z, v); };
  const V shifted = P::fma(z, c(log2_e), c(magic + bias - 32));
  const V n = shifted - c(magic + bias - 32);
  return {shifted, P::fma(n, c(-ln2_low), P::fma(n, c(-ln2_high), z))};
}
template <class V>
V one_plus_exp(const V& z) {
  return scaled_power(z).plus_one();
}
template <class V>
V one_plus_exp(const V& z, const V& low) {
  const ScaledPower<V> p = scaled_power(z);
  return ScaledPower<V>{p.shifted, p.remainder + low}.plus_one();
}

// 1 / (1 + exp(-x)).
template <class V>
V sigmoid(const V& x) {
  using P = Prim<V>;
  const V z = at_least(at_most(-x, 110.0), -30.0);
  return P::constant(x, 1.0) / one_plus_exp(z) * P::constant(x, 0x1p-32);
}

// x / (1 + exp(-x)); above 20 that is x. -inf gives -0, the limit.
template <class V>
V silu(const V& x) {
  using P = Prim<V>;
  const V y = at_least(at_most(x, 20.0), -110.0);
  const V inside = y / one_plus_exp(-y) * P::constant(x, 0x1p-32);
  return P::select(x > P::constant(x, 20.0), x, inside);
}

// max(x, 0) + log(1 + exp(-|x|)).
template <class V>
V softplus(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(-P::abs(x), -110.0);
  const V shifted = P::fma(y, c(log2_e), c(magic + bias + 64));
  const V n = shifted - c(magic + bias + 64);
  const V r = P::fma(n, c(-ln2_low), P::fma(n, c(-ln2_high), y));
  const V e = exp_of_remainder(r) * power_of_two(shifted) * c(0x1p-64);
  const V q = polynomial(e, 1.0, -0x1.fffff8p-2, 0x1.5553b6p-2, -0x1.ffc59ep-3, 0x1.978b56p-3, -0x1.4a72c6p-3,
                         0x1.ff2976p-4, -0x1.54f2acp-4, 0x1.590208p-5, -0x1.c0a86p-7, 0x1.113c34p-9);
  return P::fma(e, q, meaning::relu(x));
}

// max(x, 0), but -0 for a negative x and NaN for NaN: what is left of a gelu when its tail is subtracted.
template <class V>
V without_tail(const V& x) {
  using P = Prim<V>;
  return P::select(x < P::constant(x, 0.0), P::constant(x, -0.0), x);
}

// x Phi(x), Phi the normal distribution: with t = |x| Phi(-|x|) it is -t below zero and x - t above.
//
// t = exp(-a^2/2) F(a). F = u Q(u) with u = a / (a + 4): Q falls smoothly from 2 to 1/2, so one polynomial serves the
// whole range where a quotient of polynomials would round twice as often. The two roundings of u matter only near zero,
// where 4u = a (1 - u) has but one. What the product and Q's last step lose is carried along.
template <class V>
V gelu(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 14.375);
  const V s = a * a, s_lost = P::fma(a, a, -s);
  const V u = a / (a + c(4.0));
  const V v = u - c(0x1.28f7bcp-2);
  // Q holds a factor exp(-n ln2_low) too: n is -a^2/2 log2 e up to a half, and a half of it does not matter.
  const V slope = polynomial(v, -0x1.0ceed6p+1, 0x1.61159ep+1, -0x1.2d9e8p+1, 0x1.03e436p+0, 0x1.813a4ap-3,
                             -0x1.a4bb06p-2, 0x1.14da76p-6, 0x1.61e692p-3, -0x1.130c48p-4);
  const V q = P::fma(v, slope, c(0x1.183b1p+0)), q_lost = P::fma(v, slope, c(0x1.183b1p+0) - q);
  const V m = P::select(a < c(0x1.666666p-1), P::fma(-a, u, a), (u + u) + (u + u));
  const V f = m * q, f_lost = P::fma(m, q_lost, P::fma(m, q, -f));
  // exp(-a^2/2) = 2^n exp(-r/2), 2^32 in the power to keep it normal.
  const V shifted = P::fma(s, c(-0.5 * log2_e), c(magic + bias + 32));
  const V n = shifted - c(magic + bias + 32);
  const V r = P::fma(n, c(2 * ln2_high), s) + s_lost;
  const V e = polynomial(r, -0.5, 0x1.fffffcp-4, -0x1.555492p-6, 0x1.5558bp-9, -0x1.12399cp-12, 0x1.6a4ecap-16);
  const V t = (f + P::fma(f * r, e, f_lost)) * power_of_two(shifted);
  return P::fma(t, c(-0x1p-34), without_tail(x));
}

// gelu'(x) = Phi(x) + x phi(x), phi the normal density: with g = Phi(-a) - a phi(a), a = |x|, it is g below zero and 1
// - g above.
//
// g has one root r and falls like exp(-a^2/2): g = (r - a) W exp(-a^2/2), r in two parts, so that nothing cancels
// around it. W falls smoothly from 2/3 to 2/5, a polynomial in a / (a + 4).
template <class V>
V gelu_derivative(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 15.0);
  const V s = a * a;
  const V v = a / (a + c(4.0)) - c(0x1.9435e6p-2);
  const V w = polynomial(v, 0x1.f29ecp-2, -0x1.103d8ap-2, 0x1.4b5154p-2, -0x1.2dc784p-2, 0x1.6fba8p-3, -0x1.72ed7ep-5,
                         -0x1.c6b14cp-6, 0x1.7d0718p-6, 0x1.2485a4p-8, -0x1.0bde48p-7);
  const V from_root = (c(0x1.80ead2p-1) - a) - c(0x1.a03fd4p-27);
  const V g = times_exp_of_minus(from_root * w, c(0.0), s, P::fma(a, a, -s), 0.5);
  const V all = P::select(x < c(0.0), g * c(0x1p-64), P::fma(g, c(-0x1p-64), c(1.0)));
  return P::select(P::abs(x) > c(-1.0), all, x);  // NaN stays
}

// x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is x/2 (1 + tanh(...)) without its cancellation.
//
// As for gelu: x, or nothing below zero, less t = a / (1 + exp(z)) with z = k a (a^2 + 1/0.044715). z is carried in two
// parts, in units of k: its error meets a factor of up to 100 in the tail. Most of that is additions, which x86 does
// beside its products.
template <class V>
V gelu_tanh(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 10.875);
  const V s = a * a, s_lost = P::fma(a, a, -s);
  // The larger part of 1/0.044715 is short, so that w - that is exact.
  const V w = s + c(0x1.65d4p+4);
  const V w_lost = (s - (w - c(0x1.65d4p+4))) + (s_lost + c(-0x1.a12262p-12));
  const V high = a * w, low = P::fma(a, w_lost, P::fma(a, w, -high));
  const V shifted = P::fma(high, c(0x1.a5a7dp-4), c(magic + bias - 32));
  const V n = shifted - c(magic + bias - 32);
  const V r = P::fma(n, c(-0x1.36d9d6p+3), high) + P::fma(n, c(0x1.25115cp-22), low);
  // 2^-32 (1 + exp(z)), see ScaledPower; exp(k r) - 1 is r times `slope`.
  const V slope =
      polynomial(r, 0x1.2444f4p-4, 0x1.4dad6p-9, 0x1.fbec84p-15, 0x1.21ed66p-20, 0x1.0a7146p-26, 0x1.9a0ddp-33);
  const V power = power_of_two(shifted);
  const V one = c(0x1p-32), sum = power + one, sum_lost = one - (sum - power);
  return P::fma(a / (sum + P::fma(power * r, slope, sum_lost)), c(-0x1p-32), without_tail(x));
}

// x sigmoid(1.702 x).
template <class V>
V gelu_sigmoid(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 20.0), -64.5);
  const V high = y * c(-0x1.b3b646p+0);
  const V low = P::fma(y, c(0x1.78d4fep-26), P::fma(y, c(-0x1.b3b646p+0), -high));
  const V inside = y / one_plus_exp(high, low) * c(0x1p-32);
  return P::select(x > c(20.0), x, inside);
}

}  // namespace tileweave::meaning::f32

namespace tileweave::meaning::f64 {

// 2^-128 (1 + exp(z)) for z from -60 to 790.
template <class V>
struct ScaledPower {
  V shifted, remainder;
  V plus_one() const {
    return Prim<V>::fma(exp_of_remainder(remainder), power_of_two(shifted), Prim<V>::constant(shifted, 0x1p-128));
  }
};
template <class V>
ScaledPower<V> scaled_power(const V& z) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(z, v); };
  const V shifted = P::fma(z, c(log2_e), c(magic + bias - 128));
  const V n = shifted - c(magic + bias - 128);
  return {shifted, P::fma(n, c(-ln2_low), P::fma(n, c(-ln2_high), z))};
}
template <class V>
V one_plus_exp(const V& z) {
  return scaled_power(z).plus_one();
}
template <class V>
V one_plus_exp(const V& z, const V& low) {
  const ScaledPower<V> p = scaled_power(z);
  return ScaledPower<V>{p.shifted, p.remainder + low}.plus_one();
}

template <class V>
V sigmoid(const V& x) {
  using P = Prim<V>;
  const V z = at_least(at_most(-x, 760.0), -50.0);
  return P::constant(x, 1.0) / one_plus_exp(z) * P::constant(x, 0x1p-128);
}

template <class V>
V silu(const V& x) {
  using P = Prim<V>;
  const V y = at_least(at_most(x, 40.0), -765.0);
  const V inside = y / one_plus_exp(-y) * P::constant(x, 0x1p-128);
  return P::select(x > P::constant(x, 40.0), x, inside);
}

template <class V>
V softplus(const V& x) {
  return meaning::relu(x) + f64::log1p(f64::exp(-Prim<V>::abs(x)));
}

// By the complementary error function: Phi(-a) = erfc(a / sqrt 2) / 2, the argument in two parts.
template <class V>
V gelu(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 38.7);
  const V half_square = c(0.5) * a * a;
  const V quotient = erfc_quotient(a * c(0x1.6a09e667f3bcdp-1));
  const V t = times_exp_of_minus(a * quotient, half_square, P::fma(c(0.5) * a, a, -half_square));
  return P::fma(t, c(-0x1p-513), P::select(x < c(0.0), c(-0.0), x));
}

// As for f32: near its root by a series around it, elsewhere g = exp(-a^2/2) (erfc(a / sqrt 2) exp(a^2/2) / 2 - a
// phi(0)).
template <class V>
V gelu_derivative(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V a = at_most(P::abs(x), 39.5);
  const V half_square = c(0.5) * a * a;
  const V quotient = erfc_quotient(a * c(0x1.6a09e667f3bcdp-1));
  const V factor = P::fma(a, c(-0x1.9884533d43651p-2), c(0.5) * quotient);
  const V far = times_exp_of_minus(factor, half_square, P::fma(c(0.5) * a, a, -half_square)) * c(0x1p-512);
  const V past_root = (a - c(0x1.80ead197f00b4p-1)) + c(0x1.13e74c58cada8p-56);
  const V series = polynomial(
      past_root, -0x1.b9d98fa5a3215p-2, 0x1.8d9a941de3ac5p-2, 0x1.2a2ef9bb865aep-6, -0x1.d2fa4c17c7e84p-4,
      0x1.e4088244f901dp-7, 0x1.3e346def42057p-6, -0x1.297b9d6ffaacdp-8, -0x1.258a6d85633afp-9, 0x1.8680f74e6b6bap-11,
      0x1.86c863b66083cp-13, -0x1.69610924deba8p-14, -0x1.784acad4b941ep-17, 0x1.03fec69bdd554p-17,
      0x1.d0c38b7a117ccp-22, -0x1.322a347f1968bp-21, -0x1.b9057b3d93486p-30, 0x1.3099122c48e32p-25);
  const V g = P::select(P::abs(past_root) < c(0.3125), past_root * series, far);
  const V all = P::select(x < c(0.0), g, c(1.0) - g);
  return P::select(P::abs(x) > c(-1.0), all, x);
}

template <class V>
V gelu_tanh(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 7.5), -21.7);
  const V square = y * y, square_lost = P::fma(y, y, -square);
  const double c1_high = 0x1.9884533d44p+0, c1_low = -0x1.35ee5e069876p-41;
  const double c3_high = 0x1.2444f2a4d8b4bp-4, c3_low = -0x1.6c843a29d1c7p-61;
  const V w = P::fma(square, c(c3_high), c(c1_high));
  const V w_lost = P::fma(square, c(c3_high), c(c1_high) - w) +
                   P::fma(square_lost, c(c3_high), P::fma(square, c(c3_low), c(c1_low)));
  const V high = -(y * w);
  const V low = -P::fma(y, w_lost, P::fma(y, w, high));
  const V inside = y / one_plus_exp(high, low) * c(0x1p-128);
  return P::select(x > c(7.5), x, inside);
}

template <class V>
V gelu_sigmoid(const V& x) {
  using P = Prim<V>;
  const auto c = [&](double v) { return P::constant(x, v); };
  const V y = at_least(at_most(x, 24.0), -449.5);
  const V high = y * c(-0x1.b3b645a1cac08p+0);
  const V low = P::fma(y, c(-0x1.89374bc6a7efap-55), P::fma(y, c(-0x1.b3b645a1cac08p+0), -high));
  const V inside = y / one_plus_exp(high, low) * c(0x1p-128);
  return P::select(x > c(24.0), x, inside);
}

}  // namespace tileweave::meaning::f64
