// Element types: the enum, its facts, and the map from a host C++ type to it.
// First thing in the flow: everything above speaks of element types through this file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "tileweave/jit/base/float_types.h"

namespace tileweave {

enum class Dtype : std::uint8_t {
#define TILEWEAVE_DTYPE(id, text, bits, kind, host) id,
#include "tileweave/jit/base/dtype.def"
};

enum class DtypeKind : std::uint8_t { floating, signed_int, unsigned_int, boolean_kind };

inline constexpr int dtype_count = 0
#define TILEWEAVE_DTYPE(id, text, bits, kind, host) +1
#include "tileweave/jit/base/dtype.def"
    ;

struct DtypeInfo {
  std::string_view text;
  int bits;  // of storage; bool takes 8
  DtypeKind kind;
};

constexpr DtypeInfo dtype_info(Dtype t) {
  switch (t) {
#define TILEWEAVE_DTYPE(id, text, bits, kind, host) \
  case Dtype::id:                                   \
    return {text, bits, DtypeKind::kind};
#include "tileweave/jit/base/dtype.def"
  }
  return {"?", 0, DtypeKind::boolean_kind};
}

constexpr std::string_view dtype_name(Dtype t) { return dtype_info(t).text; }
// Bytes of one element in memory.
constexpr int dtype_bytes(Dtype t) { return dtype_info(t).bits / 8; }
constexpr bool is_float(Dtype t) { return dtype_info(t).kind == DtypeKind::floating; }
constexpr bool is_signed(Dtype t) { return dtype_info(t).kind == DtypeKind::signed_int; }
constexpr bool is_unsigned(Dtype t) { return dtype_info(t).kind == DtypeKind::unsigned_int; }
constexpr bool is_int(Dtype t) { return is_signed(t) || is_unsigned(t); }
constexpr bool is_bool(Dtype t) { return t == Dtype::boolean; }
// f16, bf16, fp8: arithmetic is done in f32 and rounded once.
constexpr bool is_narrow_float(Dtype t) { return is_float(t) && dtype_info(t).bits < 32; }

// The type with this printed name ("f32", "bool", ...), or nothing.
constexpr std::optional<Dtype> dtype_from_name(std::string_view name) {
#define TILEWEAVE_DTYPE(id, text, bits, kind, host) \
  if (name == text) return Dtype::id;
#include "tileweave/jit/base/dtype.def"
  return std::nullopt;
}

namespace detail {
template <class T>
struct DtypeOf {
  static constexpr bool known = false;
};
#define TILEWEAVE_DTYPE(id, text, bits, kind, host) \
  template <>                                       \
  struct DtypeOf<host> {                            \
    static constexpr bool known = true;             \
    static constexpr Dtype value = Dtype::id;       \
  };
#include "tileweave/jit/base/dtype.def"
// `long long` is a type of its own beside std::int64_t (`long`) on Linux, with the same meaning.
template <>
struct DtypeOf<long long> : DtypeOf<std::int64_t> {};
template <>
struct DtypeOf<unsigned long long> : DtypeOf<std::uint64_t> {};
}  // namespace detail

// A C++ type that is an element type (float, tileweave::f16, std::int32_t, bool, ...).
template <class T>
concept ElementType = detail::DtypeOf<T>::known;

template <ElementType T>
inline constexpr Dtype dtype_of = detail::DtypeOf<T>::value;

// The host type of an element type known at run time: calls f(std::type_identity<Host>{}).
template <class F>
constexpr decltype(auto) visit_dtype(Dtype t, F&& f) {
  switch (t) {
#define TILEWEAVE_DTYPE(id, text, bits, kind, host) \
  case Dtype::id:                                   \
    return f(std::type_identity<host>{});
#include "tileweave/jit/base/dtype.def"
  }
  return f(std::type_identity<bool>{});
}

}  // namespace tileweave
