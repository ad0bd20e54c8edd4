// ir::host's primitives: what the native rows of ops.def name, as templates over the computing type.
// Included by host_eval.cpp alone. Computing types are float, double, the integers and bool; nothing here traps.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tileweave/jit/base/meaning/primitives.h"

namespace tileweave::ir::host {

template <class T>
concept Floating = std::floating_point<T>;
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

// Integers wrap: computed in an unsigned type at least as wide as unsigned, where overflow is defined.
template <Integer T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
template <Integer T>
constexpr Wrapping<T> wrap(T x) {
  return static_cast<Wrapping<T>>(x);
}
template <Integer T>
constexpr int width_of = 8 * static_cast<int>(sizeof(T));

template <class T>
T add(T a, T b) {
  if constexpr (Floating<T>)
    return a + b;
  else
    return static_cast<T>(wrap(a) + wrap(b));
}
template <class T>
T sub(T a, T b) {
  if constexpr (Floating<T>)
    return a - b;
  else
    return static_cast<T>(wrap(a) - wrap(b));
}
template <class T>
T mul(T a, T b) {
  if constexpr (Floating<T>)
    return a * b;
  else
    return static_cast<T>(wrap(a) * wrap(b));
}
template <class T>
T neg(T a) {
  if constexpr (Floating<T>)
    return -a;
  else
    return static_cast<T>(0 - wrap(a));
}
template <class T>
T abs(T a) {
  if constexpr (Floating<T>)
    return std::fabs(a);
  else
    return a < 0 ? neg(a) : a;
}
template <class T>
T fma(T a, T b, T c) {
  if constexpr (Floating<T>)
    return std::fma(a, b, c);
  else
    return add(mul(a, b), c);
}
template <Integer T>
constexpr bool is_smallest_by_minus_one(T a, T b) {
  return std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1);
}
template <class T>
T div(T a, T b) {
  if constexpr (Floating<T>)
    return a / b;
  else if (b == 0)
    return 0;
  else
    return is_smallest_by_minus_one(a, b) ? a : static_cast<T>(a / b);
}
template <class T>
T rem(T a, T b) {
  if constexpr (Floating<T>)
    return std::fmod(a, b);
  else if (b == 0)
    return a;
  else
    return is_smallest_by_minus_one(a, b) ? T{0} : static_cast<T>(a % b);
}
template <Integer T>
T floor_div(T a, T b) {
  const T q = div(a, b);
  const bool down = b != 0 && rem(a, b) != 0 && (a < 0) != (b < 0);
  return down ? static_cast<T>(q - 1) : q;
}
template <Integer T>
T floor_mod(T a, T b) {
  return sub(a, mul(floor_div(a, b), b));
}
template <Integer T>
T cdiv(T a, T b) {
  const T q = div(a, b);
  const bool up = b != 0 && rem(a, b) != 0 && (a < 0) == (b < 0);
  return up ? static_cast<T>(q + 1) : q;
}
template <Integer T>
T mul_hi(T a, T b) {
  if constexpr (sizeof(T) < 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> width_of<T>);
  } else {
    __extension__ using Signed = __int128;
    __extension__ using Unsigned = unsigned __int128;
    using Wide = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 64);
  }
}

template <Floating T>
T sqrt(T a) {
  return std::sqrt(a);
}
template <Floating T>
T floor(T a) {
  return std::floor(a);
}
template <Floating T>
T ceil(T a) {
  return std::ceil(a);
}
template <Floating T>
T trunc(T a) {
  return std::trunc(a);
}
template <Floating T>
T rint(T a) {
  return std::nearbyint(a);
}
template <Floating T>
T round(T a) {
  return std::round(a);
}
template <Floating T>
T copysign(T a, T b) {
  return std::copysign(a, b);
}
template <class T>
T minimum(T a, T b) {
  if constexpr (Floating<T>)
    return meaning::HostPrim<T>::minimum(a, b);
  else
    return a < b ? a : b;
}
template <class T>
T maximum(T a, T b) {
  if constexpr (Floating<T>)
    return meaning::HostPrim<T>::maximum(a, b);
  else
    return a > b ? a : b;
}
template <class T>
T fmin(T a, T b) {
  if constexpr (Floating<T>)
    return meaning::HostPrim<T>::fmin(a, b);
  else
    return minimum(a, b);
}
template <class T>
T fmax(T a, T b) {
  if constexpr (Floating<T>)
    return meaning::HostPrim<T>::fmax(a, b);
  else
    return maximum(a, b);
}

template <std::integral T>
T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <std::integral T>
T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <std::integral T>
T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <std::integral T>
T bit_not(T a) {
  if constexpr (std::same_as<T, bool>)
    return !a;
  else
    return static_cast<T>(~a);
}
// Shift counts are read as unsigned, so a negative one is past the width.
template <Integer T>
T shl(T a, T b) {
  const auto n = static_cast<std::make_unsigned_t<T>>(b);
  return n < width_of<T> ? static_cast<T>(wrap(a) << n) : T{0};
}
template <Integer T>
T shr(T a, T b) {
  const auto n = static_cast<std::make_unsigned_t<T>>(b);
  if (n < width_of<T>) return static_cast<T>(a >> n);
  return a < 0 ? static_cast<T>(-1) : T{0};
}
template <Integer T>
T popcount(T a) {
  return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(a)));
}
template <Integer T>
T clz(T a) {
  return static_cast<T>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(a)));
}

template <class T>
bool eq(T a, T b) {
  return a == b;
}
template <class T>
bool ne(T a, T b) {
  return a != b;
}
template <class T>
bool lt(T a, T b) {
  return a < b;
}
template <class T>
bool le(T a, T b) {
  return a <= b;
}
template <class T>
bool gt(T a, T b) {
  return a > b;
}
template <class T>
bool ge(T a, T b) {
  return a >= b;
}
template <Floating T>
bool is_nan(T a) {
  return a != a;
}
template <Floating T>
bool is_inf(T a) {
  return std::fabs(a) == std::numeric_limits<T>::infinity();
}
template <Floating T>
bool is_finite(T a) {
  return std::fabs(a) < std::numeric_limits<T>::infinity();
}
template <Floating T>
bool signbit(T a) {
  return std::signbit(a);
}
template <class T>
T where(bool a, T b, T c) {
  return a ? b : c;
}

}  // namespace tileweave::ir::host
