// Dual numbers a + b eps: forward-mode derivatives of any function template over its number type, the gradients'
// oracle.
#pragma once

#include <cmath>

namespace oracle {

struct Dual {
  double v = 0, d = 0;
  Dual() = default;
  Dual(double value, double slope = 0) : v(value), d(slope) {}
  Dual& operator+=(const Dual& o) { return *this = {v + o.v, d + o.d}; }
  Dual& operator-=(const Dual& o) { return *this = {v - o.v, d - o.d}; }
};
inline Dual operator+(const Dual& a, const Dual& b) { return {a.v + b.v, a.d + b.d}; }
inline Dual operator-(const Dual& a, const Dual& b) { return {a.v - b.v, a.d - b.d}; }
inline Dual operator*(const Dual& a, const Dual& b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
inline Dual operator/(const Dual& a, const Dual& b) { return {a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)}; }
inline Dual operator-(const Dual& a) { return {-a.v, -a.d}; }
inline bool operator<(const Dual& a, const Dual& b) { return a.v < b.v; }
inline bool operator>(const Dual& a, const Dual& b) { return a.v > b.v; }
inline bool operator<=(const Dual& a, const Dual& b) { return a.v <= b.v; }
inline bool operator>=(const Dual& a, const Dual& b) { return a.v >= b.v; }
inline Dual exp(const Dual& a) { return {std::exp(a.v), a.d * std::exp(a.v)}; }
inline Dual expm1(const Dual& a) { return {std::expm1(a.v), a.d * std::exp(a.v)}; }
inline Dual log(const Dual& a) { return {std::log(a.v), a.d / a.v}; }
inline Dual log1p(const Dual& a) { return {std::log1p(a.v), a.d / (1 + a.v)}; }
inline Dual sqrt(const Dual& a) { return {std::sqrt(a.v), a.d * 0.5 / std::sqrt(a.v)}; }
inline Dual fabs(const Dual& a) { return {std::fabs(a.v), a.v < 0 ? -a.d : a.d}; }
inline Dual tanh(const Dual& a) { return {std::tanh(a.v), a.d * (1 - std::tanh(a.v) * std::tanh(a.v))}; }
inline Dual erf(const Dual& a) { return {std::erf(a.v), a.d * 1.12837916709551257390 * std::exp(-a.v * a.v)}; }
inline Dual erfc(const Dual& a) { return {std::erfc(a.v), -a.d * 1.12837916709551257390 * std::exp(-a.v * a.v)}; }
inline Dual pow(const Dual& a, const Dual& b) {
  const double p = std::pow(a.v, b.v);
  return {p, a.d * b.v * std::pow(a.v, b.v - 1) + (b.d == 0 ? 0 : b.d * p * std::log(a.v))};
}

}  // namespace oracle
