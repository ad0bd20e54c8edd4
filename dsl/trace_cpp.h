// Functions of the C++ library that are no op of the table, with the C++ standard's meaning, for generated headers.
#pragma once

#include <limits>

#include "tileweave/dsl/trace.h"

namespace tileweave::trace::cpp {

// std::min and std::max: the first where they are equal or do not compare.
template <class T>
Value<T> min(const Value<T>& a, const std::type_identity_t<Value<T>>& b) {
  return where(b < a, b, a);
}
template <class T>
Value<T> max(const Value<T>& a, const std::type_identity_t<Value<T>>& b) {
  return where(a < b, b, a);
}
template <class T>
Value<T> clamp(const Value<T>& v, const std::type_identity_t<Value<T>>& lo, const std::type_identity_t<Value<T>>& hi) {
  return where(v < lo, lo, where(hi < v, hi, v));
}
// a - b where a is larger, 0 where not; NaN of a NaN.
template <class T>
Value<T> fdim(const Value<T>& a, const std::type_identity_t<Value<T>>& b) {
  return where(a <= b, Value<T>(T(0)), a - b);
}
template <class T>
Value<bool> isnormal(const Value<T>& x) {
  return op::is_finite(x) & (op::abs(x) >= std::numeric_limits<T>::min());
}
// a + t (b - a), exact at t = 0 and 1, as libstdc++ and libc++ compute std::lerp.
template <class T>
Value<T> lerp(const Value<T>& a, const std::type_identity_t<Value<T>>& b, const std::type_identity_t<Value<T>>& t) {
  const Value<bool> opposite = ((a <= T(0)) & (b >= T(0))) | ((a >= T(0)) & (b <= T(0)));
  const Value<T> x = a + t * (b - a);
  const Value<T> bounded = where((t > T(1)) == (b > a), where(b < x, x, b), where(x < b, x, b));
  return where(opposite, t * b + (T(1) - t) * a, where(t == T(1), b, bounded));
}
// asinh x = sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))), past 2^28 (f32: 2^12) log(2 |x|) as x^2 would overflow.
template <class T>
Value<T> asinh(const Value<T>& x) {
  const Value<T> a = op::abs(x), square = a * a;
  const T large = sizeof(T) == 4 ? T(4096) : T(268435456);
  const Value<T> usual = op::log1p(a + square / (T(1) + op::sqrt(T(1) + square)));
  return op::copysign(where(a > large, op::log(a) + T(0.693147180559945309417), usual), x);
}
// acosh x = log1p(t + sqrt(2 t + t^2)), t = x - 1; NaN below 1.
template <class T>
Value<T> acosh(const Value<T>& x) {
  const Value<T> t = x - T(1);
  const T large = sizeof(T) == 4 ? T(4096) : T(268435456);
  return where(x > large, op::log(x) + T(0.693147180559945309417), op::log1p(t + op::sqrt(T(2) * t + t * t)));
}
// atanh x = sign(x) / 2 log1p(2 |x| / (1 - |x|)).
template <class T>
Value<T> atanh(const Value<T>& x) {
  const Value<T> a = op::abs(x);
  return op::copysign(T(0.5) * op::log1p(T(2) * a / (T(1) - a)), x);
}

}  // namespace tileweave::trace::cpp
