// Activation and loss functions, colour spaces, option prices, quantisation: as people write them, in plain C++,
// decorated. corpus_test.cpp compiles them as they are, as fusion groups, and (the templates) over dual numbers.
#pragma once

#include <tileweave/dsl/element.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace corpus {

// --- activations
template <class T>
TILEWEAVE_FUSION_GROUP T relu(T x) {
  return x > T(0) ? x : T(0);
}
template <class T>
TILEWEAVE_FUSION_GROUP T leaky_relu(T x) {
  if (x >= T(0)) return x;
  return T(0.01) * x;
}
template <class T>
TILEWEAVE_FUSION_GROUP T elu(T x) {
  using std::expm1;
  return x > T(0) ? x : expm1(x);
}
template <class T>
TILEWEAVE_FUSION_GROUP T selu(T x) {
  using std::expm1;
  const T scale = T(1.0507009873554804934193349852946), alpha = T(1.6732632423543772848170429916717);
  return scale * (x > T(0) ? x : alpha * expm1(x));
}
template <class T>
TILEWEAVE_FUSION_GROUP T celu(T x, T alpha) {
  using std::expm1;
  if (x > T(0)) return x;
  return alpha * expm1(x / alpha);
}
template <class T>
TILEWEAVE_FUSION_GROUP T gelu_erf(T x) {
  using std::erf;
  return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440)));
}
template <class T>
TILEWEAVE_FUSION_GROUP T gelu_tanh(T x) {
  using std::tanh;
  const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + tanh(inner));
}
template <class T>
TILEWEAVE_FUSION_GROUP T quick_gelu(T x) {
  using std::exp;
  return x / (T(1) + exp(T(-1.702) * x));
}
template <class T>
TILEWEAVE_FUSION_GROUP T stable_sigmoid(T x) {
  using std::exp;
  if (x >= T(0)) {
    return T(1) / (T(1) + exp(-x));
  } else {
    const T e = exp(x);
    return e / (T(1) + e);
  }
}
template <class T>
TILEWEAVE_FUSION_GROUP T silu(T x) {
  return x * stable_sigmoid(x);
}
template <class T>
TILEWEAVE_FUSION_GROUP T softplus(T x) {
  using std::exp;
  using std::log1p;
  if (x > T(20)) return x;
  return log1p(exp(x));
}
template <class T>
TILEWEAVE_FUSION_GROUP T mish(T x) {
  using std::tanh;
  return x * tanh(softplus(x));
}
template <class T>
TILEWEAVE_FUSION_GROUP T hardswish(T x) {
  if (x <= T(-3)) return T(0);
  if (x >= T(3)) return x;
  return x * (x + T(3)) / T(6);
}
template <class T>
TILEWEAVE_FUSION_GROUP T hardsigmoid(T x) {
  T y = x / T(6) + T(0.5);
  if (y < T(0)) y = T(0);
  if (y > T(1)) y = T(1);
  return y;
}
template <class T>
TILEWEAVE_FUSION_GROUP T softsign(T x) {
  using std::fabs;
  return x / (T(1) + fabs(x));
}
template <class T>
TILEWEAVE_FUSION_GROUP T tanhshrink(T x) {
  using std::tanh;
  return x - tanh(x);
}
template <class T>
TILEWEAVE_FUSION_GROUP T softshrink(T x, T lambda) {
  if (x > lambda) return x - lambda;
  if (x < -lambda) return x + lambda;
  return T(0) * x;
}
template <class T>
TILEWEAVE_FUSION_GROUP T squared_relu(T x) {
  if (!(x > T(0))) return T(0);
  return x * x;
}

// --- losses
template <class T>
TILEWEAVE_FUSION_GROUP T huber(T x, T delta) {
  using std::fabs;
  const T a = fabs(x);
  if (a <= delta) return T(0.5) * x * x;
  return delta * (a - T(0.5) * delta);
}
template <class T>
TILEWEAVE_FUSION_GROUP T smooth_l1(T x, T y) {
  using std::fabs;
  T d = x - y;
  d = fabs(d);
  return d < T(1) ? T(0.5) * d * d : d - T(0.5);
}
template <class T>
TILEWEAVE_FUSION_GROUP T log_cosh(T x) {
  using std::exp;
  using std::fabs;
  using std::log1p;
  const T a = fabs(x);
  return a + log1p(exp(T(-2) * a)) - T(0.69314718055994530942);
}
template <class T>
TILEWEAVE_FUSION_GROUP T binary_cross_entropy_with_logits(T logit, T target) {
  using std::exp;
  using std::fabs;
  using std::log1p;
  T loss = log1p(exp(-fabs(logit)));
  if (logit > T(0)) loss += logit;
  return loss - logit * target;
}
template <class T>
TILEWEAVE_FUSION_GROUP T focal_loss(T p, T target) {
  using std::log;
  const T eps = T(1e-6);
  T pt = target > T(0.5) ? p : T(1) - p;
  if (pt < eps) pt = eps;
  const T a = target > T(0.5) ? T(0.25) : T(0.75);
  return -a * (T(1) - pt) * (T(1) - pt) * log(pt);
}
template <class T>
TILEWEAVE_FUSION_GROUP T log_add_exp(T a, T b) {
  using std::exp;
  using std::log1p;
  T large = a, small = b;
  if (a < b) {
    large = b;
    small = a;
  }
  return large + log1p(exp(small - large));
}
template <class T>
TILEWEAVE_FUSION_GROUP T log_sum_exp_term(T x, T max) {
  using std::exp;
  return exp(x - max);
}
template <class T>
TILEWEAVE_FUSION_GROUP T hinge(T score, T label) {
  const T margin = T(1) - label * score;
  return margin > T(0) ? margin : T(0);
}
template <class T>
TILEWEAVE_FUSION_GROUP T poisson_nll(T log_rate, T target) {
  using std::exp;
  return exp(log_rate) - target * log_rate;
}

// --- colours
struct Rgb {
  float r, g, b;
};
struct Hsv {
  float hue, saturation, value;
};
template <class T>
TILEWEAVE_FUSION_GROUP T srgb_to_linear(T c) {
  using std::pow;
  if (c <= T(0.04045)) return c / T(12.92);
  return pow((c + T(0.055)) / T(1.055), T(2.4));
}
template <class T>
TILEWEAVE_FUSION_GROUP T linear_to_srgb(T c) {
  using std::pow;
  if (c <= T(0.0031308)) return T(12.92) * c;
  return T(1.055) * pow(c, T(1) / T(2.4)) - T(0.055);
}
TILEWEAVE_FUSION_GROUP inline float luminance(Rgb c) { return 0.2126f * c.r + 0.7152f * c.g + 0.0722f * c.b; }
TILEWEAVE_FUSION_GROUP inline Hsv rgb_to_hsv(Rgb c) {
  const float high = std::max(std::max(c.r, c.g), c.b), low = std::min(std::min(c.r, c.g), c.b);
  const float span = high - low;
  Hsv out{0.0f, high > 0.0f ? span / high : 0.0f, high};
  if (span > 0.0f) {
    if (high == c.r) {
      out.hue = (c.g - c.b) / span;
      if (out.hue < 0.0f) out.hue += 6.0f;
    } else if (high == c.g) {
      out.hue = (c.b - c.r) / span + 2.0f;
    } else {
      out.hue = (c.r - c.g) / span + 4.0f;
    }
    out.hue *= 60.0f;
  }
  return out;
}
TILEWEAVE_FUSION_GROUP inline Rgb hsv_to_rgb(Hsv c) {
  const float sector = c.hue / 60.0f;
  const int i = static_cast<int>(std::floor(sector)) % 6;
  const float f = sector - std::floor(sector);
  const float p = c.value * (1.0f - c.saturation), q = c.value * (1.0f - c.saturation * f),
              t = c.value * (1.0f - c.saturation * (1.0f - f));
  switch (i) {
    case 0:
      return {c.value, t, p};
    case 1:
      return {q, c.value, p};
    case 2:
      return {p, c.value, t};
    case 3:
      return {p, q, c.value};
    case 4:
      return {t, p, c.value};
    default:
      return {c.value, p, q};
  }
}
TILEWEAVE_FUSION_GROUP inline float aces_tonemap(float x) {
  constexpr float a = 2.51f, b = 0.03f, c = 2.43f, d = 0.59f, e = 0.14f;
  return std::clamp((x * (a * x + b)) / (x * (c * x + d) + e), 0.0f, 1.0f);
}

// --- prices
template <class T>
TILEWEAVE_FUSION_GROUP T normal_cdf(T x) {
  using std::erfc;
  return T(0.5) * erfc(-x * T(0.70710678118654752440));
}
template <class T>
TILEWEAVE_FUSION_GROUP T black_scholes_call(T spot, T strike, T years) {
  using std::exp;
  using std::log;
  using std::sqrt;
  const T rate = T(0.02), volatility = T(0.3);
  const T root = volatility * sqrt(years);
  const T d1 = (log(spot / strike) + (rate + T(0.5) * volatility * volatility) * years) / root;
  return spot * normal_cdf(d1) - strike * exp(-rate * years) * normal_cdf(d1 - root);
}
// The volatility at which the option costs this much, by Newton's method.
TILEWEAVE_FUSION_GROUP inline double implied_volatility(double price, double spot, double strike) {
  double sigma = 0.3;
  for (int i = 0; i < 40; ++i) {
    const double d1 = (std::log(spot / strike) + 0.5 * sigma * sigma) / sigma;
    const double value = spot * 0.5 * std::erfc(-d1 * 0.70710678118654752440) -
                         strike * 0.5 * std::erfc(-(d1 - sigma) * 0.70710678118654752440);
    const double slope = spot * std::exp(-0.5 * d1 * d1) * 0.39894228040143267794;
    const double error = value - price;
    if (std::fabs(error) < 1e-12 * spot) break;
    sigma -= error / slope;
    if (sigma < 0.01) sigma = 0.01;
  }
  return sigma;
}

// --- quantisation
enum class Rounding { nearest = 0, stochastic = 1 };
TILEWEAVE_FUSION_GROUP inline std::int8_t quantise_i8(float x, float scale) {
  const float q = std::nearbyint(x / scale);
  return static_cast<std::int8_t>(std::clamp(q, -128.0f, 127.0f));
}
TILEWEAVE_FUSION_GROUP inline float dequantise_i8(std::int8_t q, float scale) { return static_cast<float>(q) * scale; }
// To f8e4m3 by hand: sign, 4 bits of exponent with bias 7, 3 of mantissa; round to nearest even, saturate, NaN stays.
TILEWEAVE_FUSION_GROUP inline std::uint8_t quantise_e4m3(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  if (std::isnan(x)) return static_cast<std::uint8_t>(sign | 0x7f);
  const float a = std::fabs(x);
  if (a >= 448.0f) return static_cast<std::uint8_t>(sign | 0x7e);
  if (a < 0.015625f) return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(std::nearbyint(a * 512.0f)));
  std::uint32_t m = bits & 0x7fffffffu;
  m += 0x7ffffu + ((m >> 20) & 1u);
  const std::uint32_t e = (m >> 20) - (120u << 3);
  return static_cast<std::uint8_t>(sign | (e > 0x7eu ? 0x7eu : e));
}
TILEWEAVE_FUSION_GROUP inline float dequantise_e4m3(std::uint8_t q) {
  const int exponent = (q >> 3) & 15, mantissa = q & 7;
  const float sign = (q & 0x80) != 0 ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7fc00000u);
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0.001953125f;
  const std::uint32_t bits = static_cast<std::uint32_t>(exponent + 120) << 23 | static_cast<std::uint32_t>(mantissa)
                                                                                    << 20;
  return sign * std::bit_cast<float>(bits);
}
TILEWEAVE_FUSION_GROUP inline std::uint16_t to_bf16_bits(float x, Rounding how, std::uint32_t noise) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  switch (how) {
    case Rounding::nearest:
      bits += 0x7fffu + ((bits >> 16) & 1u);
      break;
    case Rounding::stochastic:
      bits += noise & 0xffffu;
      break;
  }
  return static_cast<std::uint16_t>(bits >> 16);
}

// --- special functions and number theory, for their loops
constexpr double lanczos[] = {676.5203681218851,  -1259.1392167224028,  771.32342877765313,    -176.61502916214059,
                              12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
TILEWEAVE_FUSION_GROUP inline double log_gamma(double x) {
  double a = 0.99999999999980993;
  const double t = x + 6.5;
  for (int i = 0; i < 8; ++i) a += lanczos[i] / (x + static_cast<double>(i));
  return 0.91893853320467274178 + (x - 0.5) * std::log(t) - t + std::log(a);
}
TILEWEAVE_FUSION_GROUP inline float reciprocal_root(float x) {  // as in a game of 1999
  std::uint32_t i = std::bit_cast<std::uint32_t>(x);
  i = 0x5f3759dfu - (i >> 1);
  float y = std::bit_cast<float>(i);
  for (int k = 0; k < 2; k++) y = y * (1.5f - 0.5f * x * y * y);
  return y;
}
TILEWEAVE_FUSION_GROUP inline int collatz_steps(std::uint32_t n) {
  int steps = 0;
  while (n > 1u && steps < 1000) {
    n = n % 2u == 0u ? n / 2u : 3u * n + 1u;
    ++steps;
  }
  return steps;
}
TILEWEAVE_FUSION_GROUP inline std::uint32_t hash32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}
TILEWEAVE_FUSION_GROUP inline int mandelbrot(float re, float im, int limit) {
  float x = 0.0f, y = 0.0f;
  int n = 0;
  do {
    const float next = x * x - y * y + re;
    y = 2.0f * x * y + im;
    x = next;
  } while (++n < limit && x * x + y * y < 4.0f);
  return n;
}

}  // namespace corpus
