// The host's storage types for narrow floats: f16, bf16, f8e4m3, f8e5m2, and their exact conversions.
// First thing in the flow, with dtype.h: users hold tensors of these, the interpreter and the folder round with them.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

namespace tileweave {

// What a value over the largest finite one becomes: that largest one (`saturate`), or infinity (NaN where there is
// none).
enum class Overflow : std::uint8_t { saturate, to_infinity };

namespace detail {

// A format: bits of exponent and fraction, and how the top exponent is used. `Default` is the rule of plain
// conversions.
template <class StorageT, int ExponentBits, int FractionBits, bool HasInfinity, Overflow Default>
struct FloatFormat {
  using Storage = StorageT;
  static constexpr int exponent_bits = ExponentBits, fraction_bits = FractionBits;
  static constexpr bool has_infinity =
      HasInfinity;  // false: only all ones is NaN, the rest of the top exponent is finite
  static constexpr Overflow overflow = Default;
  static constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  static constexpr int min_scale = 1 - bias - FractionBits;  // the smallest subnormal is 2^min_scale
  static constexpr std::uint32_t sign = 1u << (ExponentBits + FractionBits);
  static constexpr std::uint32_t top_exponent = ((1u << ExponentBits) - 1) << FractionBits;
  static constexpr std::uint32_t max_finite = HasInfinity ? top_exponent - 1 : sign - 2;
  // f16 and bf16: a quiet NaN without payload; fp8: all ones, as the hardware's conversions give.
  static constexpr std::uint32_t nan = FractionBits > 3 ? top_exponent | (1u << (FractionBits - 1)) : sign - 1;
};

using F16Format = FloatFormat<std::uint16_t, 5, 10, true, Overflow::to_infinity>;
using Bf16Format = FloatFormat<std::uint16_t, 8, 7, true, Overflow::to_infinity>;
using F8e4m3Format = FloatFormat<std::uint8_t, 4, 3, false, Overflow::saturate>;
using F8e5m2Format = FloatFormat<std::uint8_t, 5, 2, true, Overflow::saturate>;

template <class F>
constexpr std::uint32_t overflowed(Overflow rule) {
  if (rule == Overflow::saturate) return F::max_finite;
  return F::has_infinity ? F::top_exponent : F::nan;
}

// Rounds the exact value mantissa * 2^scale to nearest even: the one place where a narrow float is rounded.
template <class F>
constexpr std::uint32_t round_magnitude(std::uint64_t mantissa, int scale, Overflow rule) {
  if (mantissa == 0) return 0;
  const int width = 64 - std::countl_zero(mantissa);
  // The scale of one unit in the last place of the result, before a possible carry.
  const int natural = scale + width - 1 - F::fraction_bits;
  const int unit = natural > F::min_scale ? natural : F::min_scale;
  const int drop = unit - scale;
  std::uint64_t kept = 0;
  if (drop > 64) {
    kept = 0;  // below half of the smallest subnormal
  } else if (drop == 64) {
    kept = mantissa > (std::uint64_t{1} << 63) ? 1 : 0;
  } else if (drop > 0) {
    const std::uint64_t half = std::uint64_t{1} << (drop - 1), rest = mantissa & (2 * half - 1);
    kept = mantissa >> drop;
    kept += (rest > half || (rest == half && (kept & 1))) ? 1 : 0;
  } else {
    kept = mantissa << -drop;
  }
  // `kept` carries its implicit bit, so adding it to the exponent below it gives the next exponent; a carry works too.
  const std::int64_t exponent = unit - F::min_scale;
  if (exponent > (1 << F::exponent_bits)) return overflowed<F>(rule);
  const std::uint64_t bits = (static_cast<std::uint64_t>(exponent) << F::fraction_bits) + kept;
  return bits > F::max_finite ? overflowed<F>(rule) : static_cast<std::uint32_t>(bits);
}

// Any binary float of at most 64 bits, given as its bits and the sizes of its fields.
template <class F, int FractionBits, int ExponentBits>
constexpr std::uint32_t encode_binary(std::uint64_t bits, Overflow rule) {
  constexpr int top = (1 << ExponentBits) - 1, bias = top / 2;
  const std::uint32_t sign = (bits >> (FractionBits + ExponentBits)) & 1 ? F::sign : 0;
  const int exponent = static_cast<int>(bits >> FractionBits) & top;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << FractionBits) - 1);
  if (exponent == top) return sign | (fraction != 0 ? F::nan : overflowed<F>(rule));
  const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | (std::uint64_t{1} << FractionBits);
  return sign | round_magnitude<F>(mantissa, (exponent == 0 ? 1 : exponent) - bias - FractionBits, rule);
}

template <class F>
constexpr std::uint32_t encode(float x, Overflow rule) {
  return encode_binary<F, 23, 8>(std::bit_cast<std::uint32_t>(x), rule);
}
template <class F>
constexpr std::uint32_t encode(double x, Overflow rule) {
  return encode_binary<F, 52, 11>(std::bit_cast<std::uint64_t>(x), rule);
}
template <class F, std::integral I>
constexpr std::uint32_t encode(I x, Overflow rule) {
  const auto wide = static_cast<std::uint64_t>(x);
  if constexpr (std::signed_integral<I>) {
    if (x < 0) return F::sign | round_magnitude<F>(0 - wide, 0, rule);
  }
  return round_magnitude<F>(wide, 0, rule);
}

// Exact: every value of every narrow format is an f32.
template <class F>
constexpr float decode(std::uint32_t bits) {
  const std::uint32_t sign = bits & F::sign ? 0x80000000u : 0u, magnitude = bits & (F::sign - 1);
  if (F::has_infinity ? magnitude > F::top_exponent : magnitude == F::nan) {
    return std::bit_cast<float>(sign | 0x7fc00000u);
  }
  if (F::has_infinity && magnitude == F::top_exponent) return std::bit_cast<float>(sign | 0x7f800000u);
  if constexpr (F::exponent_bits == 8) return std::bit_cast<float>(bits << (23 - F::fraction_bits));
  const std::uint32_t exponent = magnitude >> F::fraction_bits;
  if (exponent != 0) {
    const std::uint32_t rebias = static_cast<std::uint32_t>(127 - F::bias) << 23;
    return std::bit_cast<float>(sign | ((magnitude << (23 - F::fraction_bits)) + rebias));
  }
  // A subnormal: an integer times 2^min_scale, both exact in f32.
  const float scale = std::bit_cast<float>(static_cast<std::uint32_t>(127 + F::min_scale) << 23);
  const float value = static_cast<float>(magnitude) * scale;
  return sign != 0 ? -value : value;
}

// The members all four types share; Self is the type itself.
template <class Self, class FormatT>
struct NarrowFloat {
  using Format = FormatT;
  using Storage = typename Format::Storage;
  Storage bits = 0;

  constexpr NarrowFloat() = default;
  // Rounded once, to nearest even, by the format's own overflow rule.
  constexpr explicit NarrowFloat(float x) : bits(static_cast<Storage>(encode<Format>(x, Format::overflow))) {}
  constexpr explicit NarrowFloat(double x) : bits(static_cast<Storage>(encode<Format>(x, Format::overflow))) {}
  template <std::integral I>
  constexpr explicit NarrowFloat(I x) : bits(static_cast<Storage>(encode<Format>(x, Format::overflow))) {}
  constexpr operator float() const { return decode<Format>(bits); }

  static constexpr Self from_bits(Storage b) {
    Self r;
    r.bits = b;
    return r;
  }
};

}  // namespace detail

// IEEE binary16.
struct f16 : detail::NarrowFloat<f16, detail::F16Format> {
  using NarrowFloat::NarrowFloat;
};
// The upper half of an f32.
struct bf16 : detail::NarrowFloat<bf16, detail::Bf16Format> {
  using NarrowFloat::NarrowFloat;
};
// OCP E4M3: no infinity, largest finite 448; plain conversions saturate.
struct f8e4m3 : detail::NarrowFloat<f8e4m3, detail::F8e4m3Format> {
  using NarrowFloat::NarrowFloat;
};
// OCP E5M2: the upper half of an f16, largest finite 57344; plain conversions saturate, infinity included.
struct f8e5m2 : detail::NarrowFloat<f8e5m2, detail::F8e5m2Format> {
  using NarrowFloat::NarrowFloat;
};

template <class T>
concept NarrowFloatType =
    std::same_as<T, f16> || std::same_as<T, bf16> || std::same_as<T, f8e4m3> || std::same_as<T, f8e5m2>;

// A conversion with the overflow rule chosen: narrow<f8e4m3>(465.0f, Overflow::to_infinity) is NaN, f16 too can
// saturate. A NaN stays a NaN under both. X: float, double or an integer; rounded once, to nearest even.
template <NarrowFloatType T, class X>
constexpr T narrow(X x, Overflow rule) {
  return T::from_bits(static_cast<typename T::Storage>(detail::encode<typename T::Format>(x, rule)));
}

namespace detail {
template <class T>
struct NarrowLimits {
  using F = typename T::Format;
  static constexpr T make(std::uint32_t bits) { return T::from_bits(static_cast<typename F::Storage>(bits)); }
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr bool has_infinity = F::has_infinity, has_quiet_NaN = true, has_signaling_NaN = false;
  static constexpr bool is_iec559 = F::has_infinity;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = F::fraction_bits + 1;
  static constexpr int digits10 = (digits - 1) * 30103 / 100000;
  static constexpr int max_digits10 = digits * 30103 / 100000 + 2;
  static constexpr int min_exponent = 2 - F::bias;
  static constexpr int max_exponent = (1 << F::exponent_bits) - 1 - F::bias + (F::has_infinity ? 0 : 1);
  static constexpr int min_exponent10 = (min_exponent - 1) * 30103 / 100000;
  static constexpr int max_exponent10 = max_exponent * 30103 / 100000;
  static constexpr T min() { return make(1u << F::fraction_bits); }
  static constexpr T max() { return make(F::max_finite); }
  static constexpr T lowest() { return make(F::sign | F::max_finite); }
  static constexpr T epsilon() {
    return T(std::bit_cast<float>(static_cast<std::uint32_t>(127 - F::fraction_bits) << 23));
  }
  static constexpr T round_error() { return T(0.5f); }
  static constexpr T infinity() { return make(F::has_infinity ? F::top_exponent : 0); }
  static constexpr T quiet_NaN() { return make(F::nan); }
  static constexpr T signaling_NaN() { return make(F::nan); }
  static constexpr T denorm_min() { return make(1); }
};
}  // namespace detail
}  // namespace tileweave

template <>
class std::numeric_limits<tileweave::f16> : public tileweave::detail::NarrowLimits<tileweave::f16> {};
template <>
class std::numeric_limits<tileweave::bf16> : public tileweave::detail::NarrowLimits<tileweave::bf16> {};
template <>
class std::numeric_limits<tileweave::f8e4m3> : public tileweave::detail::NarrowLimits<tileweave::f8e4m3> {};
template <>
class std::numeric_limits<tileweave::f8e5m2> : public tileweave::detail::NarrowLimits<tileweave::f8e5m2> {};
