// Tests the math functions' meanings at the host: field cases, exact results, special values of C, and that they are
// composed of the documented primitives alone. Mirrors jit/base/meaning; the error in ulp is measured in
// tests/accuracy.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "tileweave/jit/base/meaning/functions.h"

namespace tileweave {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

float f(std::uint32_t bits) { return std::bit_cast<float>(bits); }
double relative(double got, double want) { return std::fabs(got / want - 1); }

TEST_CASE("exp (case 16)") {
  const auto within_2_ulp = [](float got, std::uint32_t want) {
    return std::abs(static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(got)) - static_cast<std::int64_t>(want)) <=
           2;
  };
  CHECK(within_2_ulp(meaning::exp(88.0f), 0x7EF882B7));
  CHECK(within_2_ulp(meaning::exp(-87.0f), 0x00B33687));
  CHECK(within_2_ulp(meaning::exp(1.0f), 0x402DF854));
  CHECK(meaning::exp(-103.0f) == f(1));
  CHECK(meaning::exp(0.0f) == 1.0f);
  CHECK(meaning::exp(89.0f) == inf);
  CHECK(meaning::exp(-inf) == 0.0f);
  CHECK(std::isnan(meaning::exp(nan)));
}

TEST_CASE("activation tails (case 17)") {
  CHECK(meaning::tanh(50.0f) == 1.0f);
  CHECK(meaning::tanh(-50.0f) == -1.0f);
  CHECK(relative(meaning::gelu_tanh(-6.0f), -8.43965e-11) < 1e-5);
  CHECK(relative(meaning::gelu_tanh(-8.0f), -3.1078e-21) < 1e-4);
  CHECK(relative(meaning::gelu(-6.0f), -5.91953e-9) < 1e-5);
  CHECK(relative(meaning::gelu(-10.0f), -7.61985e-23) < 1e-5);
  CHECK(meaning::gelu(50.0f) == 50.0f);
  CHECK(relative(meaning::gelu(1.0f), 0.841345) < 1e-5);
  CHECK(relative(meaning::gelu_tanh(1.0f), 0.841192) < 1e-5);
  CHECK(meaning::sigmoid(-100.0f) >= 0);
  CHECK(meaning::sigmoid(-100.0f) < 4e-44f);
  CHECK(meaning::softplus(100.0f) == 100.0f);
}

// What every activation does at the ends, in both widths.
template <class F>
void check_activation_ends() {
  constexpr F big = std::numeric_limits<F>::infinity(), most = std::numeric_limits<F>::max();
  const auto gate = [&](F (*g)(const F&)) {
    CHECK(g(big) == big);
    CHECK(g(most) == most);
    CHECK(g(-big) == 0);
    CHECK(g(-most) == 0);
    CHECK(g(F(0)) == 0);
    CHECK(std::signbit(g(F(-0.0))));
    CHECK(g(std::numeric_limits<F>::denorm_min() * 4) == std::numeric_limits<F>::denorm_min() * 2);
    CHECK(std::isnan(g(std::numeric_limits<F>::quiet_NaN())));
  };
  gate(meaning::gelu<F>);
  gate(meaning::gelu_tanh<F>);
  gate(meaning::gelu_sigmoid<F>);
  gate(meaning::silu<F>);
  CHECK(meaning::gelu_derivative(big) == 1);
  CHECK(meaning::gelu_derivative(-big) == 0);
  CHECK(meaning::gelu_derivative(F(0)) == F(0.5));
  CHECK(std::isnan(meaning::gelu_derivative(std::numeric_limits<F>::quiet_NaN())));
  CHECK(meaning::sigmoid(big) == 1);
  CHECK(meaning::sigmoid(-big) == 0);
  CHECK(meaning::sigmoid(F(0)) == F(0.5));
  CHECK(meaning::softplus(-big) == 0);
  CHECK(meaning::softplus(most) == most);
  CHECK(meaning::relu(F(-3)) == 0);
  CHECK(std::isnan(meaning::relu(std::numeric_limits<F>::quiet_NaN())));
}
TEST_CASE("activations at the ends") {
  check_activation_ends<float>();
  check_activation_ends<double>();
}

template <class F>
void check_pow_cases() {
  const F big = std::numeric_limits<F>::infinity(), none = std::numeric_limits<F>::quiet_NaN();
  const F odd_limit = std::ldexp(F(1), std::numeric_limits<F>::digits);  // from here on all numbers are even
  const F values[] = {F(0),
                      F(-0.0),
                      F(1),
                      F(-1),
                      F(2),
                      F(-2),
                      F(0.5),
                      F(-0.5),
                      F(3),
                      F(-3),
                      big,
                      -big,
                      none,
                      odd_limit - 1,
                      odd_limit,
                      F(2.5),
                      F(-2.5),
                      F(1e-30),
                      F(1e30),
                      F(-1e30),
                      std::numeric_limits<F>::denorm_min(),
                      std::numeric_limits<F>::max()};
  for (const F x : values) {
    for (const F y : values) {
      CAPTURE(x);
      CAPTURE(y);
      const F got = meaning::pow(x, y), want = std::pow(x, y);
      if (std::isnan(want)) {
        CHECK(std::isnan(got));
      } else if (want == 0 || std::isinf(want) || x == 1 || y == 0 || std::fabs(x) == 1) {
        CHECK(got == want);
        CHECK(std::signbit(got) == std::signbit(want));
      } else {
        CHECK(std::fabs(got / want - 1) < 4 * std::numeric_limits<F>::epsilon());
      }
    }
  }
}
TEST_CASE("pow has all of C's special cases") {
  check_pow_cases<float>();
  check_pow_cases<double>();
}

template <class F>
void check_exact_results() {
  for (int n = std::numeric_limits<F>::min_exponent - std::numeric_limits<F>::digits;
       n < std::numeric_limits<F>::max_exponent; ++n) {
    CAPTURE(n);
    const F power = std::ldexp(F(1), n);
    CHECK(meaning::exp2(static_cast<F>(n)) == power);
    CHECK(meaning::log2(power) == static_cast<F>(n));
    CHECK(meaning::pow(F(2), static_cast<F>(n)) == power);
  }
  for (int n = -100; n <= 100; ++n) {
    CAPTURE(n);
    const F k = static_cast<F>(n);
    CHECK(meaning::cbrt(k * k * k) == k);
    CHECK(meaning::pow(k, F(2)) == k * k);
    CHECK(meaning::hypot(3 * k, 4 * k) == std::fabs(5 * k));
  }
  CHECK(meaning::log(F(1)) == 0);
  CHECK(meaning::log10(F(1000)) == 3);
  CHECK(meaning::exp10(F(3)) == 1000);
  CHECK(meaning::rsqrt(F(16)) == F(0.25));
  CHECK(meaning::cos(F(0)) == 1);
  CHECK(meaning::cosh(F(0)) == 1);
  CHECK(meaning::erfc(F(0)) == 1);
}
TEST_CASE("exact results are exact") {
  check_exact_results<float>();
  check_exact_results<double>();
}

template <class F>
void check_domain_ends() {
  const F big = std::numeric_limits<F>::infinity();
  for (F (*g)(const F&) : {meaning::log<F>, meaning::log2<F>, meaning::log10<F>}) {
    CHECK(g(F(0)) == -big);
    CHECK(g(F(-0.0)) == -big);
    CHECK(g(big) == big);
    CHECK(std::isnan(g(F(-1))));
    CHECK(std::isnan(g(-big)));
    CHECK(std::isnan(g(std::numeric_limits<F>::quiet_NaN())));
  }
  CHECK(meaning::log1p(F(-1)) == -big);
  CHECK(std::isnan(meaning::log1p(F(-1.5))));
  CHECK(meaning::log1p(big) == big);
  CHECK(meaning::expm1(-big) == -1);
  for (F (*g)(const F&) : {meaning::sin<F>, meaning::cos<F>, meaning::tan<F>}) CHECK(std::isnan(g(big)));
  for (F (*g)(const F&) : {meaning::asin<F>, meaning::acos<F>}) CHECK(std::isnan(g(F(1.0001))));
  CHECK(meaning::hypot(big, std::numeric_limits<F>::quiet_NaN()) == big);
  CHECK(meaning::rsqrt(F(0)) == big);
  CHECK(meaning::rsqrt(big) == 0);
  // Odd functions keep the sign of zero and the smallest denormal.
  for (F (*g)(const F&) : {meaning::sin<F>, meaning::tan<F>, meaning::asin<F>, meaning::atan<F>, meaning::sinh<F>,
                           meaning::tanh<F>, meaning::expm1<F>, meaning::log1p<F>, meaning::cbrt<F>, meaning::erf<F>}) {
    CHECK(std::signbit(g(F(-0.0))));
    CHECK_FALSE(std::signbit(g(F(0))));
    CHECK(g(F(-0.0)) == 0);
  }
  for (F (*g)(const F&) : {meaning::sin<F>, meaning::tan<F>, meaning::asin<F>, meaning::atan<F>, meaning::sinh<F>,
                           meaning::tanh<F>, meaning::expm1<F>, meaning::log1p<F>}) {
    CHECK(g(std::numeric_limits<F>::denorm_min()) == std::numeric_limits<F>::denorm_min());
  }
}
TEST_CASE("the ends of the domains") {
  check_domain_ends<float>();
  check_domain_ends<double>();
}

TEST_CASE("huge angles are reduced exactly") {
  // Correctly rounded values, computed in 400-bit arithmetic.
  CHECK(relative(meaning::sin(1e22), -0.8522008497671888) < 1e-15);
  CHECK(relative(meaning::cos(1e22), 0.5232147853951389) < 1e-15);
  CHECK(relative(meaning::sin(3.4028234663852886e38f), -0.5218765) < 1e-6);
  CHECK(relative(meaning::cos(3.4028234663852886e38f), 0.8530210) < 1e-6);
  // The double nearest to a multiple of pi/2: its cosine is far below its unit in the last place.
  CHECK(relative(meaning::cos(6381956970095103.0 * 0x1p797), -4.687165924254624e-19) < 1e-13);
}

// --- Composed of the documented primitives alone: a value type that knows at run time what it is and refuses a mix.

struct Checked {
  enum Kind { floating, unsigned_int, signed_int, boolean } kind = floating;
  int width = 32;
  std::uint64_t bits = 0;
};
int broken_rules = 0;
void expect(bool rule) { broken_rules += rule ? 0 : 1; }

// Applies fn to the operands as host scalars of the width; both must be of `kind`.
template <class Narrow, class Wide, class Fn>
Checked apply(Checked::Kind kind, Checked::Kind result, Fn fn, const Checked& a, const Checked& b) {
  expect(a.kind == kind && b.kind == kind && a.width == b.width);
  const auto at = [&](auto zero) {
    using T = decltype(zero);
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const auto r = fn(std::bit_cast<T>(static_cast<Bits>(a.bits)), std::bit_cast<T>(static_cast<Bits>(b.bits)));
    if constexpr (std::is_same_v<decltype(r), const bool>) {
      return std::uint64_t{r};
    } else {
      return std::uint64_t{std::bit_cast<Bits>(r)};
    }
  };
  return {result, a.width, a.width == 64 ? at(Wide{}) : at(Narrow{})};
}
template <class Fn>
Checked on_floats(Fn fn, const Checked& a, const Checked& b) {
  return apply<float, double>(Checked::floating, Checked::floating, fn, a, b);
}
template <class Fn>
Checked on_unsigned(Fn fn, const Checked& a, const Checked& b) {
  return apply<std::uint32_t, std::uint64_t>(Checked::unsigned_int, Checked::unsigned_int, fn, a, b);
}
template <class Fn>
Checked compare(Fn fn, const Checked& a, const Checked& b) {
  if (a.kind == Checked::floating) return apply<float, double>(Checked::floating, Checked::boolean, fn, a, b);
  if (a.kind == Checked::signed_int)
    return apply<std::int32_t, std::int64_t>(Checked::signed_int, Checked::boolean, fn, a, b);
  return apply<std::uint32_t, std::uint64_t>(Checked::unsigned_int, Checked::boolean, fn, a, b);
}
Checked retyped(const Checked& x, Checked::Kind from, Checked::Kind to) {
  expect(x.kind == from);
  return {to, x.width, x.bits};
}

#define ARITHMETIC(op)                                                                              \
  [[maybe_unused]] Checked operator op(const Checked& a, const Checked& b) {                        \
    if (a.kind == Checked::floating) return on_floats([](auto x, auto y) { return x op y; }, a, b); \
    return on_unsigned([](auto x, auto y) { return static_cast<decltype(x)>(x op y); }, a, b);      \
  }
ARITHMETIC(+)
ARITHMETIC(-)
ARITHMETIC(*)
#undef ARITHMETIC
Checked operator/(const Checked& a, const Checked& b) {
  return on_floats([](auto x, auto y) { return x / y; }, a, b);
}
Checked operator-(const Checked& a) {
  return on_floats([](auto x, auto) { return -x; }, a, a);
}
#define BITWISE(op)                                                  \
  Checked operator op(const Checked& a, const Checked& b) {          \
    return on_unsigned([](auto x, auto y) { return x op y; }, a, b); \
  }
BITWISE(&)
BITWISE(|)
BITWISE(^)
#undef BITWISE
Checked operator~(const Checked& a) {
  return on_unsigned([](auto x, auto) { return static_cast<decltype(x)>(~x); }, a, a);
}
#define COMPARISON(op)                                                       \
  [[maybe_unused]] Checked operator op(const Checked& a, const Checked& b) { \
    return compare([](auto x, auto y) -> bool { return x op y; }, a, b);     \
  }
COMPARISON(<)
COMPARISON(<=)
COMPARISON(>)
COMPARISON(>=)
COMPARISON(==)
COMPARISON(!=)
#undef COMPARISON

}  // namespace
}  // namespace tileweave

namespace tileweave::meaning {

template <>
struct Prim<Checked> {
  using C = Checked;
  using Bool = C;
  using UInt = C;
  using SInt = C;
  static constexpr int static_width = 0;
  template <class F>
  using Of = Prim<F>;

  static int width(const C& x) { return x.width; }
  static C constant(const C& like, double c) {
    if (like.width == 64) return {C::floating, 64, std::bit_cast<std::uint64_t>(c)};
    const auto narrow = static_cast<float>(c);
    expect(static_cast<double>(narrow) == c || c != c);  // constants are exact
    return {C::floating, 32, std::bit_cast<std::uint32_t>(narrow)};
  }
  static C uint_constant(const C& like, std::uint64_t bits) {
    expect(like.width == 64 || bits >> 32 == 0);
    return {C::unsigned_int, like.width, bits};
  }
  static C abs(const C& x) {
    return on_floats([](auto a, auto) { return Prim<decltype(a)>::abs(a); }, x, x);
  }
  static C sqrt(const C& x) {
    return on_floats([](auto a, auto) { return Prim<decltype(a)>::sqrt(a); }, x, x);
  }
  static C trunc(const C& x) {
    return on_floats([](auto a, auto) { return Prim<decltype(a)>::trunc(a); }, x, x);
  }
  static C fma(const C& x, const C& y, const C& z) {
    expect(z.kind == C::floating && z.width == x.width);
    if (x.width == 64) {
      return on_floats(
          [&](auto a, auto b) {
            return static_cast<decltype(a)>(std::fma(double{a}, double{b}, std::bit_cast<double>(z.bits)));
          },
          x, y);
    }
    return on_floats(
        [&](auto a, auto b) {
          return static_cast<decltype(a)>(
              std::fma(static_cast<float>(a), static_cast<float>(b), f(static_cast<std::uint32_t>(z.bits))));
        },
        x, y);
  }
  static C select(const C& c, const C& a, const C& b) {
    expect(c.kind == C::boolean && a.kind == b.kind && a.width == b.width);
    return c.bits ? a : b;
  }
  static C logical_and(const C& a, const C& b) { return boolean(a, b, a.bits & b.bits); }
  static C logical_or(const C& a, const C& b) { return boolean(a, b, a.bits | b.bits); }
  static C logical_not(const C& a) { return boolean(a, a, a.bits ^ 1); }
  static C bits(const C& x) { return retyped(x, C::floating, C::unsigned_int); }
  static C from_bits(const C& x) { return retyped(x, C::unsigned_int, C::floating); }
  static C as_signed(const C& x) { return retyped(x, C::unsigned_int, C::signed_int); }
  static C as_unsigned(const C& x) { return retyped(x, C::signed_int, C::unsigned_int); }
  static C shl(const C& x, const C& n) {
    return on_unsigned([](auto a, auto b) { return host<decltype(a)>::shl(a, b); }, x, n);
  }
  static C lshr(const C& x, const C& n) {
    return on_unsigned([](auto a, auto b) { return host<decltype(a)>::lshr(a, b); }, x, n);
  }
  static C shl(const C& x, int n) { return shl(x, count(x, n)); }
  static C lshr(const C& x, int n) { return lshr(x, count(x, n)); }
  static C ashr(const C& x, int n) {
    return apply<std::int32_t, std::int64_t>(
        C::signed_int, C::signed_int, [&](auto a, auto) { return static_cast<decltype(a)>(a >> n); }, x, x);
  }
  static C mul_high(const C& x, const C& y) {
    return on_unsigned([](auto a, auto b) { return host<decltype(a)>::mul_high(a, b); }, x, y);
  }
  static C to_float(const C& x) {
    expect(x.kind == C::signed_int);
    return x.width == 64 ? constant(x, static_cast<double>(static_cast<std::int64_t>(x.bits)))
                         : constant(x, static_cast<double>(static_cast<float>(static_cast<std::int32_t>(x.bits))));
  }
  // Both sides evaluated, as an expansion into selects does: the side not taken must not matter.
  template <class Slow>
  static C select_rare(const C& c, Slow slow, const C& fast) {
    return select(c, slow(), fast);
  }

 private:
  template <class U>
  using host = HostPrim<std::conditional_t<sizeof(U) == 4, float, double>>;
  static C count(const C& x, int n) {
    expect(n >= 0 && n < x.width);
    return {C::unsigned_int, x.width, static_cast<std::uint64_t>(n)};
  }
  static C boolean(const C& a, const C& b, std::uint64_t v) {
    expect(a.kind == C::boolean && b.kind == C::boolean);
    return {C::boolean, a.width, v};
  }
};

}  // namespace tileweave::meaning

namespace tileweave {
namespace {

template <class F>
Checked checked(F x) {
  if constexpr (sizeof(F) == 4) return {Checked::floating, 32, std::bit_cast<std::uint32_t>(x)};
  if constexpr (sizeof(F) == 8) return {Checked::floating, 64, std::bit_cast<std::uint64_t>(x)};
}
template <class F>
bool same(F host, const Checked& c) {
  return checked(host).bits == c.bits || (host != host && meaning::Prim<Checked>::bits(c).width == 8 * sizeof(F));
}

template <class F>
F random_value(std::mt19937_64& random, int i) {
  const std::uint64_t bits = random();
  if (i % 2) return static_cast<F>((static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) * (i % 4 == 1 ? 4 : 200));
  if constexpr (sizeof(F) == 4) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else {
    return std::bit_cast<double>(bits);
  }
}

template <class F>
void check_vocabulary() {
  std::mt19937_64 random(5);
  for (int i = 0; i < 400; ++i) {
    const F x = random_value<F>(random, i), y = random_value<F>(random, i);
    std::string different;
#define ONE(name)                                                                 \
  if (!same(meaning::name(x), meaning::name(checked(x)))) different += " " #name; \
  if (std::exchange(broken_rules, 0) != 0) different += " " #name " (outside the vocabulary)";
#define TWO(name)                                                                                \
  if (!same(meaning::name(x, y), meaning::name(checked(x), checked(y)))) different += " " #name; \
  if (std::exchange(broken_rules, 0) != 0) different += " " #name " (outside the vocabulary)";
    TILEWEAVE_MEANINGS(ONE, TWO)
    ONE(rsqrt)
    ONE(relu)
    ONE(mish)
#undef ONE
#undef TWO
    CAPTURE(x);
    CAPTURE(y);
    REQUIRE(different == "");
  }
}
TEST_CASE("the functions use the documented primitives alone, with one type each, and give the host's bits") {
  check_vocabulary<float>();
  check_vocabulary<double>();
}

}  // namespace
}  // namespace tileweave
