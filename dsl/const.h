// Const<T> and Specialized<T>: launch arguments that the JIT sees as constants, and their way into a key.
// Between a kernel's parameters and the recorder: a Const is a plain C++ value while the kernel is recorded.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "tileweave/dsl/element.h"

namespace tileweave {

// A JIT constant: an int, bool, enum, float or a small aggregate of such.
template <class T>
class Const {
 public:
  constexpr explicit Const(T v) : value_(v) {}
  constexpr operator T() const { return value_; }
  constexpr const T& operator*() const
    requires std::is_class_v<T>
  {
    return value_;
  }
  constexpr const T* operator->() const
    requires std::is_class_v<T>
  {
    return &value_;
  }

 private:
  T value_;
};

namespace detail {

struct AnyField {
  template <class T>
  constexpr operator T() const;
};

template <class T, class... F>
consteval int count_fields() {
  if constexpr (sizeof...(F) > 16) {
    return 17;
  } else if constexpr (requires { T{F{}..., AnyField{}}; }) {
    return count_fields<T, F..., AnyField>();
  } else {
    return sizeof...(F);
  }
}

template <class T>
concept ConstAggregate = std::is_aggregate_v<T> && std::is_class_v<T> && std::is_trivially_copyable_v<T>;

// Calls f(field...) for an aggregate of up to 12 fields.
template <ConstAggregate T, class F>
constexpr decltype(auto) with_fields(const T& t, F&& f) {
  constexpr int n = count_fields<T>();
  static_assert(n <= 12, "a tw::Const aggregate has at most 12 fields");
  if constexpr (n == 0) {
    return f();
  } else if constexpr (n == 1) {
    const auto& [a] = t;
    return f(a);
  } else if constexpr (n == 2) {
    const auto& [a, b] = t;
    return f(a, b);
  } else if constexpr (n == 3) {
    const auto& [a, b, c] = t;
    return f(a, b, c);
  } else if constexpr (n == 4) {
    const auto& [a, b, c, d] = t;
    return f(a, b, c, d);
  } else if constexpr (n == 5) {
    const auto& [a, b, c, d, e] = t;
    return f(a, b, c, d, e);
  } else if constexpr (n == 6) {
    const auto& [a, b, c, d, e, g] = t;
    return f(a, b, c, d, e, g);
  } else if constexpr (n == 7) {
    const auto& [a, b, c, d, e, g, h] = t;
    return f(a, b, c, d, e, g, h);
  } else if constexpr (n == 8) {
    const auto& [a, b, c, d, e, g, h, i] = t;
    return f(a, b, c, d, e, g, h, i);
  } else if constexpr (n == 9) {
    const auto& [a, b, c, d, e, g, h, i, j] = t;
    return f(a, b, c, d, e, g, h, i, j);
  } else if constexpr (n == 10) {
    const auto& [a, b, c, d, e, g, h, i, j, k] = t;
    return f(a, b, c, d, e, g, h, i, j, k);
  } else if constexpr (n == 11) {
    const auto& [a, b, c, d, e, g, h, i, j, k, l] = t;
    return f(a, b, c, d, e, g, h, i, j, k, l);
  } else {
    const auto& [a, b, c, d, e, g, h, i, j, k, l, m] = t;
    return f(a, b, c, d, e, g, h, i, j, k, l, m);
  }
}

template <class T>
inline constexpr bool is_const_scalar = std::is_enum_v<T> || ElementType<canonical_t<T>>;

// 8-byte words that a constant takes in a key: one per number in it, padding never read.
template <class T>
consteval std::size_t const_words() {
  if constexpr (is_const_scalar<T>) {
    return 1;
  } else {
    return with_fields(T{}, []<class... F>(const F&...) { return (std::size_t{0} + ... + const_words<F>()); });
  }
}

template <class T>
std::uint64_t* write_const(const T& v, std::uint64_t* out) {
  if constexpr (is_const_scalar<T>) {
    *out = 0;
    std::memcpy(out, &v, sizeof v);
    return out + 1;
  } else {
    with_fields(v, [&](const auto&... f) { ((out = write_const(f, out)), ...); });
    return out;
  }
}

// "128", "true", "{128, 64}": for the context line of an error.
template <class T>
std::string const_text(const T& v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(v));
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(v);
  } else if constexpr (is_const_scalar<T>) {
    std::string s = std::to_string(static_cast<double>(v));
    while (s.back() == '0') s.pop_back();
    return s.back() == '.' ? s + "0" : s;
  } else {
    std::string s = "{";
    with_fields(v, [&](const auto&... f) { ((s += (s.size() > 1 ? ", " : "") + const_text(f)), ...); });
    return s + "}";
  }
}

template <class T>
concept ConstType = is_const_scalar<T> || ConstAggregate<T>;

}  // namespace detail
}  // namespace tileweave
