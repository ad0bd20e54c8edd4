// Functions sized for a 16-bit result: forms of a few instructions for values that are only ever rounded to f16 or
// bf16. ir/short_forms.def says which op has which form and how far it may be off; the GPU lowering emits them, and
// tests/accuracy runs the same templates on a model of the approximate instructions.
//
// A form gives f32; its error is counted in units in the last place of the 16-bit type. A result of -0 is kept.
#pragma once

namespace tileweave::short_forms {

// What the forms compute with, for a value type V with + and *:
//   constant(like, c)  fma(a, b, c)  abs(a)
//   lesser(a, b)       a number wins over a NaN         greater(a, b)   a NaN wins
//   choose_below(a, b, yes, no)    a < b ? yes : no
//   ex2(a), ex2_ftz(a)             2^a to 2^-22; ex2_ftz gives 0 for results below 2^-126
//   rcp_ftz(a)                     1 / a to 2^-23; 0 for results below 2^-126, infinity for a below 2^-126
//   rsqrt(a), sqrt(a)              to 2^-22
template <class V>
struct Approx;

template <class V>
V horner(const V& x, const V& sum) {
  (void)x;
  return sum;
}
// Coefficients from the highest power down, the first of them already in `sum`.
template <class V, class... Rest>
V horner(const V& x, const V& sum, double next, Rest... rest) {
  return horner(x, Approx<V>::fma(sum, x, Approx<V>::constant(x, next)), rest...);
}
template <class V, class... Rest>
V polynomial_down(const V& x, double highest, Rest... rest) {
  return horner(x, Approx<V>::constant(x, highest), rest...);
}

inline constexpr double log2_e = 1.4426950408889634, log2_10 = 3.3219280948873623;

// gelu = max(x, 0) - t Phi(-t) with t = |x|: Phi(-t) = 2^p(t) has no cancellation in its tail. Beyond the clamp the
// product is under half of the smallest f16.
template <class V>
V gelu_f16(const V& x) {
  using A = Approx<V>;
  const V t = A::lesser(A::abs(x), A::constant(x, 5.75));
  const V p = polynomial_down(t, 3.244525578e-05, -7.484274684e-04, 7.942302153e-03, -5.305188894e-02, -4.591703713e-01,
                              -1.151036739e+00, -1.000007629e+00);
  return A::fma(t * A::constant(x, -1.0), A::ex2_ftz(p), A::greater(x, A::constant(x, -0.0)));
}
// The same to bf16's smallest numbers: 2^24 Phi, scaled back by a product that keeps subnormals.
template <class V>
V gelu_bf16(const V& x) {
  using A = Approx<V>;
  const V t = A::lesser(A::abs(x), A::constant(x, 13.6));
  const V p = polynomial_down(t, -2.882533749e-07, 1.648522266e-05, -3.963621275e-04, 5.276200362e-03, -4.366770014e-02,
                              -4.743676484e-01, -1.141929984e+00, 24 - 1.000894547e+00);
  const V phi = A::ex2_ftz(p) * A::constant(x, 0x1p-24);
  return A::fma(t * A::constant(x, -1.0), phi, A::greater(x, A::constant(x, -0.0)));
}

// gelu' = g below zero and 1 - g above, g = Phi(-t) - t phi(t) = (r - t) 2^p(-t) with t = |x| and g's root r in two
// parts: relative accuracy in the tail and around the root. Scaled as gelu_bf16, so that the smallest numbers are kept.
// Coefficients of p: least maximum error over the range, by reweighted least squares.
template <class V, class... C>
V gelu_derivative(const V& x, C... coefficients) {
  using A = Approx<V>;
  const V n = A::greater(A::abs(x) * A::constant(x, -1.0), A::constant(x, -14.1));  // -t; NaN stays
  const V from_root = (n + A::constant(x, 0x1.80ead2p-1)) + A::constant(x, -0x1.a03fd4p-27);
  const V g = from_root * A::ex2_ftz(polynomial_down(n, coefficients...)) * A::constant(x, 0x1p-24);
  return A::choose_below(x, A::constant(x, 0.0), g, A::fma(g, A::constant(x, -1.0), A::constant(x, 1.0)));
}
template <class V>
V gelu_derivative_f16(const V& x) {
  return gelu_derivative(x, 3.452534957e-10, 2.714815870e-08, 9.320994521e-07, 1.840497784e-05, 2.321703160e-04,
                         1.972577857e-03, 1.166912494e-02, 4.951395267e-02, -5.651005188e-01, 3.817883388e-01,
                         24 - 5.884772919e-01);
}
template <class V>
V gelu_derivative_bf16(const V& x) {
  return gelu_derivative(x, 2.900062618e-08, 1.842393920e-06, 4.935670427e-05, 7.289892554e-04, 6.543901367e-03,
                         3.745425585e-02, -5.793940206e-01, 3.752942593e-01, 24 - 5.889555531e-01);
}

// 1 / (1 + 2^z).
template <class V>
V sigmoid_of_power(const V& z) {
  using A = Approx<V>;
  return A::rcp_ftz(A::ex2_ftz(z) + A::constant(z, 1.0));
}
// 1 / (1 + 2^z) from z - 64, down to the subnormals of f32.
template <class V>
V sigmoid_of_shifted_power(const V& z) {
  using A = Approx<V>;
  return A::rcp_ftz(A::ex2_ftz(z) + A::constant(z, 0x1p-64)) * A::constant(z, 0x1p-64);
}

template <class V>
V sigmoid_f16(const V& x) {
  return sigmoid_of_power(x * Approx<V>::constant(x, -log2_e));
}
template <class V>
V sigmoid_any(const V& x) {
  using A = Approx<V>;
  return sigmoid_of_shifted_power(A::fma(x, A::constant(x, -log2_e), A::constant(x, -64.0)));
}

// x sigmoid(rate x). Clamped from below, where the result is 0 in the type, because -inf times 0 is no number.
template <class V>
V swish_f16(const V& x, double rate) {
  using A = Approx<V>;
  const V y = A::greater(x, A::constant(x, -40.0));
  return y * sigmoid_of_power(y * A::constant(x, -log2_e * rate));
}
template <class V>
V swish_bf16(const V& x, double rate) {
  using A = Approx<V>;
  const V y = A::greater(x, A::constant(x, -200.0));
  return y * sigmoid_of_shifted_power(A::fma(y, A::constant(x, -log2_e * rate), A::constant(x, -64.0)));
}

// x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)): the tanh form without its cancellation.
inline constexpr double gelu_tanh_1 = -2.302208198, gelu_tanh_3 = -0.1029432397;
template <class V>
V gelu_tanh_f16(const V& x) {
  using A = Approx<V>;
  const V y = A::greater(x, A::constant(x, -12.0));
  const V w = A::fma(y * y, A::constant(x, gelu_tanh_3), A::constant(x, gelu_tanh_1));
  return y * sigmoid_of_power(y * w);
}
template <class V>
V gelu_tanh_bf16(const V& x) {
  using A = Approx<V>;
  const V y = A::greater(x, A::constant(x, -12.0));
  const V w = A::fma(y * y, A::constant(x, gelu_tanh_3), A::constant(x, gelu_tanh_1));
  return y * sigmoid_of_shifted_power(A::fma(y, w, A::constant(x, -64.0)));
}

// 1 - 2 / (1 + e^2x), and x - x^3 / 3 where that would cancel.
template <class V>
V tanh(const V& x) {
  using A = Approx<V>;
  const V r = sigmoid_of_power(x * A::constant(x, 2 * log2_e));
  const V far = A::fma(r, A::constant(x, -2.0), A::constant(x, 1.0));
  const V near = x * A::fma(x * x, A::constant(x, -1.0 / 3), A::constant(x, 1.0));
  return A::choose_below(A::abs(x), A::constant(x, 0x1p-4), near, far);
}

template <class V>
V exp_ftz(const V& x, double log2_base) {
  return Approx<V>::ex2_ftz(x * Approx<V>::constant(x, log2_base));
}
template <class V>
V exp(const V& x, double log2_base) {
  return Approx<V>::ex2(x * Approx<V>::constant(x, log2_base));
}

// a / b by the reciprocal of b, brought to where neither it nor the product leaves the range of f32 before the
// quotient does.
template <class V>
V quotient(const V& a, const V& b) {
  using A = Approx<V>;
  const auto c = [&](double v) { return A::constant(b, v); };
  const V size = A::abs(b);
  const V scale = A::choose_below(size, c(0x1p-64), c(0x1p64), A::choose_below(c(0x1p64), size, c(0x1p-64), c(1.0)));
  return a * scale * A::rcp_ftz(b * scale);
}

}  // namespace tileweave::short_forms
