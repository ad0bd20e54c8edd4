// Element types of the language and the rules by which two of them meet in one operation.
// First header of dsl: expressions, tiles and tensors all type themselves by it.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tileweave/jit/base/dtype.h"
#include "tileweave/jit/base/place.h"

// `unavailable` puts our words on the first error line, at the user's place, in both compilers.
#define TILEWEAVE_REFUSED(message) __attribute__((unavailable(message)))

// The decorator form of a fusion group; the tool of dsl/decorator reads it.
#if defined(__clang__)
#define TILEWEAVE_FUSION_GROUP __attribute__((annotate("tileweave::fusion_group")))
#else
#define TILEWEAVE_FUSION_GROUP
#endif

namespace tileweave {

using index_t = std::int64_t;
inline constexpr float inf = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The smallest and largest value of an element type; for floats the finite ones.
template <ElementType T>
inline constexpr T lowest = std::numeric_limits<T>::lowest();
template <ElementType T>
inline constexpr T highest = std::numeric_limits<T>::max();

// The element type of a fusion group's placeholder: not known until the group is applied.
struct AnyElem {};

template <class T>
concept FloatElem = ElementType<T> && is_float(dtype_of<T>);
template <class T>
concept IntElem = ElementType<T> && is_int(dtype_of<T>);
template <class T>
concept BoolElem = std::same_as<T, bool>;
template <class T>
concept NumberElem = FloatElem<T> || IntElem<T>;

namespace detail {

// The element type a host type stands for: one type for each meaning (`long long` is i64, `char` is i8 or u8).
template <class T>
struct Canonical {
  using type = T;
};
template <>
struct Canonical<long long> {
  using type = std::int64_t;
};
template <>
struct Canonical<unsigned long long> {
  using type = std::uint64_t;
};
template <>
struct Canonical<char> {
  using type = std::conditional_t<std::is_signed_v<char>, std::int8_t, std::uint8_t>;
};
template <>
struct Canonical<long double> {
  using type = double;
};

}  // namespace detail

template <class T>
using canonical_t = typename detail::Canonical<T>::type;

namespace detail {

// Both literals: as C++ does it, narrow floats counting as float.
template <class X, class Y>
consteval auto meet_literals() {
  if constexpr (std::is_arithmetic_v<X> && std::is_arithmetic_v<Y>) {
    return std::type_identity<canonical_t<std::common_type_t<X, Y>>>{};
  } else if constexpr (std::same_as<X, double> || std::same_as<Y, double>) {
    return std::type_identity<double>{};
  } else {
    return std::type_identity<float>{};
  }
}

// Two integers: the wider one, where it holds every value of the other.
template <class X, class Y>
consteval auto meet_integers() {
  constexpr bool same_sign = std::is_signed_v<X> == std::is_signed_v<Y>;
  if constexpr (sizeof(X) > sizeof(Y) && (same_sign || std::is_signed_v<X>)) {
    return std::type_identity<X>{};
  } else if constexpr (sizeof(Y) > sizeof(X) && (same_sign || std::is_signed_v<Y>)) {
    return std::type_identity<Y>{};
  } else {
    return std::type_identity<void>{};
  }
}

// A literal of type L with a tile of T: the tile's type, unless that would lose what kind of number it is.
template <class T, class L>
inline constexpr bool takes_literal =
    FloatElem<T> ? (NumberElem<L> || BoolElem<L>) : (IntElem<T> ? (IntElem<L> || BoolElem<L>) : BoolElem<L>);

template <class X, bool weak_x, class Y, bool weak_y>
consteval auto meet() {
  if constexpr (std::same_as<X, void> || std::same_as<Y, void>) {
    return std::type_identity<void>{};
  } else if constexpr (std::same_as<X, AnyElem> || std::same_as<Y, AnyElem>) {
    return std::type_identity<AnyElem>{};
  } else if constexpr (std::same_as<X, Y>) {
    return std::type_identity<X>{};
  } else if constexpr (weak_x && weak_y) {
    return meet_literals<X, Y>();
  } else if constexpr (weak_y) {
    return std::type_identity<std::conditional_t<takes_literal<X, Y>, X, void>>{};
  } else if constexpr (weak_x) {
    return std::type_identity<std::conditional_t<takes_literal<Y, X>, Y, void>>{};
  } else if constexpr (IntElem<X> && IntElem<Y>) {
    return meet_integers<X, Y>();
  } else {
    return std::type_identity<void>{};
  }
}

}  // namespace detail
}  // namespace tileweave
