// Tests the narrow floats' conversions: every value of every format, every tie, single rounding from double and
// integers. Mirrors jit/base/float_types.h; the reference decodes by the formula of the formats, in double.
#include "tileweave/jit/base/float_types.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tileweave {
namespace {

struct Shape {
  int exponent_bits, fraction_bits;
  bool has_infinity;
  int bits() const { return 1 + exponent_bits + fraction_bits; }
};
template <class T>
constexpr Shape shape_of{};
template <>
constexpr Shape shape_of<f16>{5, 10, true};
template <>
constexpr Shape shape_of<bf16>{8, 7, true};
template <>
constexpr Shape shape_of<f8e4m3>{4, 3, false};
template <>
constexpr Shape shape_of<f8e5m2>{5, 2, true};

double value_of(std::uint32_t bits, Shape s) {
  const int bias = (1 << (s.exponent_bits - 1)) - 1, top = (1 << s.exponent_bits) - 1;
  const std::uint32_t fraction_mask = (1u << s.fraction_bits) - 1;
  const int exponent = static_cast<int>(bits >> s.fraction_bits) & top;
  const double fraction = bits & fraction_mask, sign = (bits >> (s.bits() - 1)) & 1 ? -1.0 : 1.0;
  if (exponent == top && s.has_infinity) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == top && (bits & fraction_mask) == fraction_mask) return NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - s.fraction_bits);
  return sign * std::ldexp(fraction + fraction_mask + 1, exponent - bias - s.fraction_bits);
}

template <class T>
T of(std::uint32_t bits) {
  return T::from_bits(static_cast<typename T::Storage>(bits));
}

// The bits of all finite values from 0 up.
template <class T>
std::vector<std::uint32_t> finite_magnitudes() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t b = 0; b < 1u << (shape_of<T>.bits() - 1) && std::isfinite(value_of(b, shape_of<T>)); ++b)
    all.push_back(b);
  return all;
}

TEST_CASE_TEMPLATE("every value decodes by the formula and encodes to itself", T, f16, bf16, f8e4m3, f8e5m2) {
  int wrong = 0;
  for (std::uint32_t b = 0; b < 1u << shape_of<T>.bits(); ++b) {
    const double want = value_of(b, shape_of<T>);
    const float got = of<T>(b);
    if (std::isnan(want)) {
      wrong += !std::isnan(got) + !std::isnan(static_cast<float>(T(got)));
      continue;
    }
    wrong += static_cast<double>(got) != want || std::signbit(got) != std::signbit(want);
    const bool is_lost_infinity = std::isinf(want) && sizeof(T) == 1;  // fp8 saturates it
    if (!is_lost_infinity) wrong += (T(got).bits != b) + (T(want).bits != b);
    wrong += narrow<T>(got, Overflow::to_infinity).bits != b;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("between neighbours rounds to the nearer, and a tie to the even one", T, f16, bf16, f8e4m3, f8e5m2) {
  const auto all = finite_magnitudes<T>();
  REQUIRE(all.size() > 100);
  const std::uint32_t sign = 1u << (shape_of<T>.bits() - 1);
  int wrong = 0;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const std::uint32_t low = all[i], high = all[i + 1], even = low & 1 ? high : low;
    const double middle = (value_of(low, shape_of<T>) + value_of(high, shape_of<T>)) / 2;
    const auto f = static_cast<float>(middle);
    REQUIRE(static_cast<double>(f) == middle);
    wrong += T(middle).bits != even || T(f).bits != even || T(-f).bits != (even | sign);
    wrong += T(std::nextafter(middle, 0.0)).bits != low || T(std::nextafter(f, 0.0f)).bits != low;
    wrong += T(std::nextafter(middle, INFINITY)).bits != high || T(std::nextafter(f, INFINITY)).bits != high;
    wrong += T(-std::nextafter(middle, INFINITY)).bits != (high | sign);
  }
  CHECK(wrong == 0);
}

TEST_CASE("values past the largest finite one") {
  CHECK(f16(65519.0f).bits == 0x7bff);
  CHECK(f16(65520.0f).bits == 0x7c00);
  CHECK(narrow<f16>(1e9, Overflow::saturate).bits == 0x7bff);
  CHECK(bf16(3.4e38f).bits == 0x7f80);
  CHECK(static_cast<float>(f8e4m3(464.0f)) == 448);
  CHECK(static_cast<float>(f8e4m3(465.0f)) == 448);
  CHECK(static_cast<float>(f8e4m3(1000)) == 448);
  CHECK(static_cast<float>(f8e4m3(-1000)) == -448);
  CHECK(static_cast<float>(f8e4m3(INFINITY)) == 448);
  CHECK(static_cast<float>(f8e5m2(-INFINITY)) == -57344);
  CHECK(std::isnan(static_cast<float>(f8e4m3(NAN))));
  CHECK(std::isnan(static_cast<float>(f8e5m2(NAN))));
  CHECK(std::isnan(static_cast<float>(narrow<f8e4m3>(465.0f, Overflow::to_infinity))));
  CHECK(static_cast<float>(narrow<f8e4m3>(464.0f, Overflow::to_infinity)) == 448);
  CHECK(std::isnan(static_cast<float>(narrow<f8e4m3>(INFINITY, Overflow::to_infinity))));
  CHECK(static_cast<float>(narrow<f8e5m2>(61440, Overflow::to_infinity)) == INFINITY);
}

TEST_CASE("fp8 rounds ties to even and once (case 20)") {
  CHECK(static_cast<float>(f8e5m2(1.125f)) == 1.0f);
  CHECK(static_cast<float>(f8e5m2(1.375f)) == 1.5f);
  CHECK(static_cast<float>(f8e5m2(1.1250001f)) == 1.25f);
  CHECK(static_cast<float>(f8e5m2(61439.0f)) == 57344.0f);
  CHECK(static_cast<float>(f8e4m3(1.0625f)) == 1.0f);
  CHECK(static_cast<float>(f8e4m3(1.0625001f)) == 1.125f);
}

TEST_CASE("a double rounds once, not by way of float") {
  // By way of float each of these becomes a tie and goes down.
  CHECK(static_cast<double>(static_cast<float>(f16(1 + 0x1p-11 + 0x1p-40))) == 1 + 0x1p-10);
  CHECK(static_cast<double>(static_cast<float>(bf16(1 + 0x1p-8 + 0x1p-40))) == 1 + 0x1p-7);
  CHECK(static_cast<float>(f8e4m3(1.0625 + 0x1p-40)) == 1.125f);
  CHECK(f16(0x1p-25 + 0x1p-60).bits == 1);
  CHECK(f16(0x1p-25).bits == 0);
  CHECK(f16(1e-300).bits == 0);
  CHECK(f16(-1e-300).bits == 0x8000);
  CHECK(f16(1e300).bits == 0x7c00);
}

TEST_CASE("integers round once") {
  CHECK(static_cast<float>(f16(2049)) == 2048);
  CHECK(static_cast<float>(f16(2051)) == 2052);
  CHECK(static_cast<float>(f16(-2051)) == -2052);
  // By way of float 2^40 + 2^32 + 1 becomes a tie of bf16.
  CHECK(static_cast<double>(static_cast<float>(bf16((std::int64_t{1} << 40) + (std::int64_t{1} << 32) + 1))) ==
        0x1p40 + 0x1p33);
  CHECK(bf16(std::numeric_limits<std::uint64_t>::max()).bits == 0x5f80);
  CHECK(bf16(std::numeric_limits<std::int64_t>::min()).bits == 0xdf00);
  CHECK(f16(65519).bits == 0x7bff);
  CHECK(f16(65520).bits == 0x7c00);
  CHECK(static_cast<float>(f8e4m3(true)) == 1.0f);
}

TEST_CASE_TEMPLATE("numeric_limits agree with the values", T, f16, bf16, f8e4m3, f8e5m2) {
  using L = std::numeric_limits<T>;
  const auto all = finite_magnitudes<T>();
  CHECK(L::max().bits == all.back());
  CHECK(static_cast<float>(L::lowest()) == -static_cast<float>(L::max()));
  CHECK(static_cast<double>(static_cast<float>(L::denorm_min())) == value_of(1, shape_of<T>));
  CHECK(std::isnan(static_cast<float>(L::quiet_NaN())));
  CHECK(L::has_infinity == shape_of<T>.has_infinity);
  if (L::has_infinity) CHECK(std::isinf(static_cast<float>(L::infinity())));
  CHECK(static_cast<float>(L::min()) == std::ldexp(1.0f, L::min_exponent - 1));
  CHECK(std::ilogb(static_cast<float>(L::max())) == L::max_exponent - 1);
  CHECK(static_cast<float>(L::epsilon()) == std::ldexp(1.0f, 1 - L::digits));
  CHECK(static_cast<float>(T(1.0f + static_cast<float>(L::epsilon()))) == 1.0f + static_cast<float>(L::epsilon()));
}

}  // namespace
}  // namespace tileweave
