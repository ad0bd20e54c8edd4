// Expands the op table into one host function for each op and element type, and defines conversions.
// Used by the builder's constant folder and the interpreter.
#include "tileweave/jit/ir/host_eval.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <source_location>
#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/meaning/functions.h"
#include "tileweave/jit/ir/host_primitives.h"

namespace tileweave::ir::host {
namespace {

// The type an element type computes in.
template <class H>
using Computing = std::conditional_t<NarrowFloatType<H>, float, H>;

template <class H>
Computing<H> read(std::uint64_t bits) {
  if constexpr (NarrowFloatType<H>) {
    return static_cast<float>(H::from_bits(static_cast<typename H::Storage>(bits)));
  } else if constexpr (std::same_as<H, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::same_as<H, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<H>(bits);
  }
}

// The bits of an element; a computing type rounds to a narrow float here, once.
template <class H, class X>
std::uint64_t write(X x) {
  if constexpr (NarrowFloatType<H>) {
    return H(x).bits;
  } else if constexpr (std::same_as<H, float>) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(x));
  } else if constexpr (std::same_as<H, double>) {
    return std::bit_cast<std::uint64_t>(static_cast<double>(x));
  } else if constexpr (std::same_as<H, bool>) {
    return x ? 1 : 0;
  } else {
    return static_cast<std::make_unsigned_t<H>>(x);
  }
}

template <OpTypes Types, class H>
constexpr bool takes = [] {
  constexpr bool number = Integer<H>, boolean = std::same_as<H, bool>, floating = !number && !boolean;
  switch (Types) {
    case OpTypes::Num:
      return number || floating;
    case OpTypes::Float:
    case OpTypes::Test:
      return floating;
    case OpTypes::Int:
      return number;
    case OpTypes::Bits:
      return number || boolean;
    default:
      return true;
  }
}();

// One struct a row: `apply` is the row's meaning at a computing type.
#define native(e) e
#define composed(e) ::tileweave::meaning::e
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text)       \
  struct Row_##id {                                                                       \
    static constexpr OpTypes op_types = OpTypes::types;                                   \
    template <class A, class T>                                                           \
    static auto apply([[maybe_unused]] A a, [[maybe_unused]] T b, [[maybe_unused]] T c) { \
      return meaning;                                                                     \
    }                                                                                     \
  };
#include "tileweave/jit/ir/ops.def"
#undef native
#undef composed

template <class Row, class H>
std::uint64_t lane(std::uint64_t a, [[maybe_unused]] std::uint64_t b, [[maybe_unused]] std::uint64_t c) {
  if constexpr (Row::op_types == OpTypes::Select) {
    return a != 0 ? b : c;  // by bits: a selection rounds nothing
  } else {
    const auto result = Row::apply(read<H>(a), read<H>(b), read<H>(c));
    if constexpr (Row::op_types == OpTypes::Compare || Row::op_types == OpTypes::Test) {
      return result ? 1 : 0;
    } else {
      return write<H>(result);
    }
  }
}

template <class Row, class H>
constexpr LaneFunction lane_or_null() {
  if constexpr (takes<Row::op_types, H>) {
    return &lane<Row, H>;
  } else {
    return nullptr;
  }
}

using LaneRow = std::array<LaneFunction, dtype_count>;
template <class Row>
constexpr LaneRow lanes_of() {
  return {
#define TILEWEAVE_DTYPE(id, text, bits, kind, host) lane_or_null<Row, host>(),
#include "tileweave/jit/base/dtype.def"
  };
}

constexpr std::array<LaneRow, elementwise_op_count> lanes = {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) lanes_of<Row_##id>(),
#include "tileweave/jit/ir/ops.def"
};

template <class To, class X>
To float_to_int(X x) {
  if (x != x) return 0;
  const X whole = std::trunc(x);
  // 2^digits is exact in every floating type; the largest integer itself is not.
  if (whole >= std::ldexp(X{1}, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
  if (whole <= static_cast<X>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(whole);
}

template <class To, class X>
To int_to_int(X x, bool saturate) {
  if (!saturate) return static_cast<To>(x);
  if (std::cmp_greater(x, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  if (std::cmp_less(x, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}

template <class From, class To>
std::uint64_t convert_as(std::uint64_t bits, bool saturate) {
  const auto x = read<From>(bits);
  using X = std::remove_const_t<decltype(x)>;
  if constexpr (std::same_as<To, bool>) {
    return x != X{} ? 1 : 0;
  } else if constexpr (Integer<To> && Floating<X>) {
    return write<To>(float_to_int<To>(x));
  } else if constexpr (Integer<To> && Integer<X>) {
    return write<To>(int_to_int<To>(x, saturate));
  } else if constexpr (std::same_as<X, bool>) {
    return write<To>(static_cast<std::int32_t>(x));
  } else {
    return write<To>(x);
  }
}

}  // namespace

LaneFunction lane_function(OpId id, Dtype t) {
  return is_elementwise(id) ? lanes[static_cast<std::size_t>(id)][static_cast<std::size_t>(t)] : nullptr;
}

std::uint64_t eval_elementwise(OpId id, Dtype t, std::span<const std::uint64_t> operands) {
  const LaneFunction f = lane_function(id, t);
  if (f == nullptr) {
    throw_internal_error(std::source_location::current(),
                         std::string(op_info(id).name) + " has no meaning at " + std::string(dtype_name(t)));
  }
  const auto at = [&](std::size_t i) { return i < operands.size() ? operands[i] : 0; };
  return f(at(0), at(1), at(2));
}

std::uint64_t convert_bits(std::uint64_t bits, Dtype from, Dtype to, bool saturate) {
  if (from == to) return bits;
  return visit_dtype(from, [&](auto f) {
    return visit_dtype(
        to, [&](auto t) { return convert_as<typename decltype(f)::type, typename decltype(t)::type>(bits, saturate); });
  });
}

double to_double(std::uint64_t bits, Dtype t) { return std::bit_cast<double>(convert_bits(bits, t, Dtype::f64)); }

std::uint64_t from_double(double v, Dtype t) { return convert_bits(std::bit_cast<std::uint64_t>(v), Dtype::f64, t); }

std::uint64_t from_int(std::int64_t v, Dtype t) { return convert_bits(static_cast<std::uint64_t>(v), Dtype::i64, t); }

std::int64_t to_int64(std::uint64_t bits, Dtype t) {
  return static_cast<std::int64_t>(convert_bits(bits, t, Dtype::i64));
}

}  // namespace tileweave::ir::host
