// The primitives of which every math function's meaning is composed, their contract, and the host's implementation.
// Below functions: exp.h, log.h, ... are templates over a value type V and use of V only what stands here.
//
// A meaning is straight-line code: no C++ branch on a value, no call outside this list. At float and double it is the
// host's reference and the constant folder, at an IR value handle it is the expansion of the op; because every
// primitive is exact or correctly rounded, all of them agree bit for bit. Two rules keep that true:
//   - a*b+c is never fused behind our back. Where one rounding is meant, the code says P::fma. The host's instances
//     are compiled with contraction off (jit/ir/host_eval.cpp); an expansion must be exempt from the IR's contraction
//     pass.
//   - denormals are kept, rounding is to nearest even.
//
// WHAT AN ADAPTOR FOR A VALUE TYPE V PROVIDES
// Operators, found by argument-dependent lookup (V, UInt, SInt and Bool may be one C++ type, as they are for IR
// values):
//   V:    + - * / unary-, all correctly rounded; < <= > >= == != -> Bool (ordered: false with a NaN, except != : true)
//   UInt: + - * (wrapping)  & | ^ ~   < <= > >= == != -> Bool (unsigned)
//   SInt: < <= > >= == != -> Bool (signed)
// template <> struct tileweave::meaning::Prim<V> with these members (all static; parameters may be const V& as well):
//   using Bool, UInt, SInt;          UInt and SInt are the integers of V's width (u32, i32 for f32; u64, i64 for f64)
//   constexpr int static_width;      32 or 64; 0 where only the value knows: then
//   int width(V x);                  32 for f32, 64 for f64. Narrower floats never come here: callers compute in f32.
//   V constant(V like, double c);    c in the type (and shape) of `like`; c is always exact in that type
//   UInt uint_constant(V like, std::uint64_t bits);  likewise an integer of V's width
//   V abs(V)  V sqrt(V)  V fma(V, V, V)  V floor(V)  V ceil(V)  V trunc(V)  V rint(V)   rint: to nearest even
//   V fmin(V, V)  V fmax(V, V)       a NaN operand is ignored; -0 < +0
//   V minimum(V, V)  V maximum(V, V) a NaN operand gives NaN; -0 < +0
//   T select(Bool c, T a, T b);      T: V, UInt, SInt or Bool; the operand not taken has no effect
//   Bool logical_and(Bool, Bool)  Bool logical_or(Bool, Bool)  Bool logical_xor(Bool, Bool)  Bool logical_not(Bool)
//   UInt bits(V)  V from_bits(UInt)  bit casts
//   SInt as_signed(UInt)  UInt as_unsigned(SInt)   bit casts
//   UInt shl(UInt, UInt)  UInt lshr(UInt, UInt)  SInt ashr(SInt, UInt)   counts >= width: 0, 0, and 0 or -1
//   UInt shl(UInt, int)   UInt lshr(UInt, int)   SInt ashr(SInt, int)    the same with a constant count < width
//   UInt mul_high(UInt, UInt)        the upper half of the double-width product
//   SInt to_int(V)                   truncates, saturates, NaN gives 0
//   V to_float(SInt)  V to_float_unsigned(UInt)   rounded to nearest even
//   template <class F> V select_rare(Bool c, F slow, V fast);
//                                    equals select(c, slow(), fast). c is true for few inputs and slow() is long (the
//                                    argument reduction of a huge angle), so a branch around it is allowed, not needed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tileweave::meaning {

template <class V>
struct Prim;

// The host's scalars: F is float or double.
template <class F>
struct HostPrim {
  using Bool = bool;
  using UInt = std::conditional_t<sizeof(F) == 4, std::uint32_t, std::uint64_t>;
  using SInt = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;
  static constexpr int static_width = 8 * sizeof(F);

  static constexpr int width(F) { return static_width; }
  static constexpr F constant(F, double c) { return static_cast<F>(c); }
  static constexpr UInt uint_constant(F, std::uint64_t bits) { return static_cast<UInt>(bits); }

  static F abs(F x) { return std::fabs(x); }
  static F sqrt(F x) { return std::sqrt(x); }
  static F fma(F a, F b, F c) { return std::fma(a, b, c); }
  static F floor(F x) { return std::floor(x); }
  static F ceil(F x) { return std::ceil(x); }
  static F trunc(F x) { return std::trunc(x); }
  static F rint(F x) { return std::nearbyint(x); }

  // Spelt out: std::fmin and the built-ins leave the order of -0 and +0 open.
  static F minimum(F a, F b) {
    if (a != a || b != b) return a + b;
    if (a == b) return from_bits(bits(a) | bits(b));
    return a < b ? a : b;
  }
  static F maximum(F a, F b) {
    if (a != a || b != b) return a + b;
    if (a == b) return from_bits(bits(a) & bits(b));
    return a > b ? a : b;
  }
  static F fmin(F a, F b) { return a != a ? b : b != b ? a : minimum(a, b); }
  static F fmax(F a, F b) { return a != a ? b : b != b ? a : maximum(a, b); }

  template <class T>
  static constexpr T select(bool c, T a, T b) {
    return c ? a : b;
  }
  static constexpr bool logical_and(bool a, bool b) { return a & b; }
  static constexpr bool logical_or(bool a, bool b) { return a | b; }
  static constexpr bool logical_xor(bool a, bool b) { return a != b; }
  static constexpr bool logical_not(bool a) { return !a; }

  static constexpr UInt bits(F x) { return std::bit_cast<UInt>(x); }
  static constexpr F from_bits(UInt b) { return std::bit_cast<F>(b); }
  static constexpr SInt as_signed(UInt b) { return static_cast<SInt>(b); }
  static constexpr UInt as_unsigned(SInt b) { return static_cast<UInt>(b); }

  static constexpr UInt shl(UInt x, UInt n) { return n < static_width ? x << n : 0; }
  static constexpr UInt lshr(UInt x, UInt n) { return n < static_width ? x >> n : 0; }
  static constexpr SInt ashr(SInt x, UInt n) { return x >> (n < static_width ? n : UInt{static_width - 1}); }
  static constexpr UInt shl(UInt x, int n) { return x << n; }
  static constexpr UInt lshr(UInt x, int n) { return x >> n; }
  static constexpr SInt ashr(SInt x, int n) { return x >> n; }
  static constexpr UInt mul_high(UInt a, UInt b) {
    if constexpr (static_width == 32) {
      return static_cast<UInt>((std::uint64_t{a} * b) >> 32);
    } else {
      __extension__ using Wide = unsigned __int128;
      return static_cast<UInt>((Wide{a} * b) >> 64);
    }
  }

  static constexpr SInt to_int(F x) {
    constexpr F limit = static_width == 32 ? F(0x1p31) : F(0x1p63);
    if (x != x) return 0;
    if (x >= limit) return std::numeric_limits<SInt>::max();
    return x < -limit ? std::numeric_limits<SInt>::min() : static_cast<SInt>(x);
  }
  static constexpr F to_float(SInt x) { return static_cast<F>(x); }
  static constexpr F to_float_unsigned(UInt x) { return static_cast<F>(x); }

  template <class Slow>
  static F select_rare(bool c, Slow slow, F fast) {
    return c ? slow() : fast;
  }
};

template <>
struct Prim<float> : HostPrim<float> {};
template <>
struct Prim<double> : HostPrim<double> {};

// --- What the meanings build from the primitives, once for all of them.

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// The polynomial c0 + c1 x + c2 x^2 + ... by Horner's rule, one fma a term.
template <class V>
V polynomial(const V& x, double c0) {
  return Prim<V>::constant(x, c0);
}
template <class V, class... C>
V polynomial(const V& x, double c0, double c1, C... rest) {
  return Prim<V>::fma(polynomial(x, c1, rest...), x, Prim<V>::constant(x, c0));
}

// The same polynomial with pairs of terms: (c0 + c1 x) + s ((c2 + c3 x) + s (...)), s = x^2. Fewer roundings in a row,
// and the rounding of s cancels to first order in a quotient of two such polynomials.
template <class V>
V paired_polynomial(const V& x, const V&, double c0) {
  return Prim<V>::constant(x, c0);
}
template <class V>
V paired_polynomial(const V& x, const V&, double c0, double c1) {
  return polynomial(x, c0, c1);
}
template <class V, class... C>
V paired_polynomial(const V& x, const V& s, double c0, double c1, double c2, C... rest) {
  return Prim<V>::fma(s, paired_polynomial(x, s, c2, rest...), polynomial(x, c0, c1));
}

// min(x, limit) and max(x, limit) that keep a NaN in x; one instruction on x86.
template <class V>
V at_most(const V& x, double limit) {
  const V c = Prim<V>::constant(x, limit);
  return Prim<V>::select(c < x, c, x);
}
template <class V>
V at_least(const V& x, double limit) {
  const V c = Prim<V>::constant(x, limit);
  return Prim<V>::select(c > x, c, x);
}

// |magnitude| with the sign bit of `sign`.
template <class V>
V copy_sign(const V& magnitude, const V& sign) {
  using P = Prim<V>;
  const auto mask = P::uint_constant(sign, P::width(sign) == 64 ? 0x8000000000000000u : 0x80000000u);
  return P::from_bits((P::bits(magnitude) & ~mask) | (P::bits(sign) & mask));
}

}  // namespace tileweave::meaning
