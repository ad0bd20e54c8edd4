// Measures the error of the f64 math functions on samples, and of the two-operand functions at both widths, against
// long double. Stands on jit/base/meaning; its results are in docs/accuracy.md. Exits with 1 above a stated bound.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>

#include "tileweave/jit/base/meaning/functions.h"

namespace {
namespace meaning = tileweave::meaning;
using Wide = long double;  // 11 bits more than f64 on x86

constexpr double inf = std::numeric_limits<double>::infinity();

// --- The error of one result, in units in the last place of F.

template <class F>
double error_in_ulp(F got, Wide reference) {
  if (std::isnan(reference)) return std::isnan(got) ? 0 : inf;
  if (std::isnan(got)) return inf;
  const F rounded = static_cast<F>(reference);
  if (std::isinf(got) || std::isinf(rounded)) return got == rounded ? 0 : inf;
  constexpr int smallest = std::numeric_limits<F>::min_exponent - 1;
  const int exponent = reference == 0 ? smallest : std::max(std::ilogb(reference), smallest);
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - reference) /
                             std::ldexp(Wide{1}, exponent - std::numeric_limits<F>::digits + 1));
}

// --- One operand.

Wide gated(Wide x, Wide y) { return x == -static_cast<Wide>(inf) ? -0.0L : x / (1 + std::exp(-y)); }
Wide ref_gelu(Wide x) {
  return x == -static_cast<Wide>(inf) ? -0.0L : x * 0.5L * std::erfc(-x * 0.70710678118654752440084436210484904L);
}
Wide ref_gelu_derivative(Wide x) {
  const Wide a = std::fmin(std::fabs(x), Wide{100});
  const Wide g = 0.5L * std::erfc(a * 0.70710678118654752440084436210484904L) -
                 a * 0.39894228040143267793994605993438187L * std::exp(-0.5L * a * a);
  return std::isnan(x) ? x : x < 0 ? g : 1 - g;
}
Wide ref_mish(Wide x) {
  const Wide w = std::exp(std::fmin(x, Wide{40})), n = w * (w + 2);
  return x < -11000 ? -Wide{0} : x * (n / (n + 2));
}
Wide ref_softplus(Wide x) { return std::isnan(x) ? x : std::fmax(x, Wide{0}) + std::log1p(std::exp(-std::fabs(x))); }

struct Function {
  const char* name;
  double (*ours)(double);
  Wide (*reference)(Wide);
  double low, high;  // where its interesting part lies
  double bound;
};

#define ROW(name, reference, low, high, bound) \
  {#name, [](double x) { return meaning::name(x); }, [](Wide x) -> Wide { return reference; }, low, high, bound}
const Function functions[] = {
    // clang-format off
    ROW(exp, std::exp(x), -750, 710, 1.0),
    ROW(exp2, std::exp2(x), -1080, 1025, 1.0),
    ROW(exp10, std::pow(Wide{10}, x), -324, 309, 1.5),
    ROW(expm1, std::expm1(x), -40, 710, 1.2),
    ROW(log, std::log(x), 0.3, 3, 0.6),
    ROW(log2, std::log2(x), 0.3, 3, 0.6),
    ROW(log10, std::log10(x), 0.3, 3, 0.6),
    ROW(log1p, std::log1p(x), -0.9, 3, 0.6),
    ROW(cbrt, std::cbrt(x), -10, 10, 0.6),
    ROW(rsqrt, 1 / std::sqrt(x), 0, 10, 1.5),
    ROW(sin, std::sin(x), -100, 100, 1.0),
    ROW(cos, std::cos(x), -100, 100, 1.0),
    ROW(tan, std::tan(x), -100, 100, 2.5),
    ROW(asin, std::asin(x), -1, 1, 1.8),
    ROW(acos, std::acos(x), -1, 1, 1.2),
    ROW(atan, std::atan(x), -5, 5, 2.5),
    ROW(sinh, std::sinh(x), -20, 20, 2.5),
    ROW(cosh, std::cosh(x), -20, 20, 1.5),
    ROW(tanh, std::tanh(x), -5, 5, 2.5),
    ROW(erf, std::erf(x), -6, 6, 1.5),
    ROW(erfc, std::erfc(x), -6, 27, 7.0),
    ROW(sigmoid, 1 / (1 + std::exp(-x)), -745, 40, 2.2),
    ROW(softplus, ref_softplus(x), -745, 40, 1.6),
    ROW(silu, gated(x, x), -745, 40, 2.2),
    ROW(mish, ref_mish(x), -745, 40, 4.0),
    ROW(gelu, ref_gelu(x), -38, 10, 8.0),
    ROW(gelu_derivative, ref_gelu_derivative(x), -38, 10, 8.0),
    ROW(gelu_tanh, gated(x, 1.59576912160573071175978423973752L * x * (1 + 0.044715L * x * x)), -22, 10, 2.5),
    ROW(gelu_sigmoid, gated(x, 1.702L * x), -440, 20, 2.5),
    // clang-format on
};
#undef ROW

struct Worst {
  double error = -1, x = 0, y = 0;
  void take(double e, double at_x, double at_y = 0) {
    if (e > error) *this = {e, at_x, at_y};
  }
};

double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

constexpr double special[] = {0.0,
                              -0.0,
                              1,
                              -1,
                              inf,
                              -inf,
                              std::numeric_limits<double>::quiet_NaN(),
                              5e-324,
                              -5e-324,
                              1e308,
                              -1e308,
                              0.5,
                              -0.5,
                              2.2250738585072014e-308,
                              1e22,
                              2,
                              -2,
                              3,
                              -3,
                              2.5,
                              -2.5,
                              0x1p1023,
                              0x1.921fb54442d18p+0,
                              0x1.921fb54442d18p+800,
                              0x1.fffffffffffffp-1,
                              -0x1.0000000000001p0};

Worst measure(const Function& f, int samples) {
  std::mt19937_64 random(7);
  Worst worst;
  const auto test = [&](double x) {
    const double got = f.ours(x);
    const Wide reference = f.reference(static_cast<Wide>(x));
    const bool wrong_zero = x == 0 && reference == 0 && std::signbit(got) != std::signbit(reference);
    worst.take(wrong_zero ? inf : error_in_ulp(got, reference), x);
  };
  for (const double x : special) test(x);
  for (int i = 0; i < samples; ++i) {
    const double u = unit(random), small = std::exp(-20 * u) * (random() & 1 ? 1 : -1);
    test(f.low + u * (f.high - f.low));
    test(std::bit_cast<double>(random()));
    for (const double x : {small, 30 * small, 1 + 0.01 * small, -1 + 0.01 * small}) test(x);
  }
  return worst;
}

// --- Two operands: each at float and at double.

Wide ref_pow(Wide x, Wide y) { return std::pow(x, y); }
Wide ref_hypot(Wide x, Wide y) { return std::hypot(x, y); }
Wide ref_atan2(Wide y, Wide x) { return std::atan2(y, x); }

template <class F>
struct Binary {
  const char* name;
  F (*ours)(const F&, const F&);
  Wide (*reference)(Wide, Wide);
  double bound;
};

template <class F>
Worst measure(const Binary<F>& f, int samples) {
  std::mt19937_64 random(11);
  Worst worst;
  const auto test = [&](F x, F y) {
    const F got = f.ours(x, y);
    const Wide reference = f.reference(static_cast<Wide>(x), static_cast<Wide>(y));
    const bool wrong_zero = got == 0 && reference == 0 && std::signbit(got) != std::signbit(reference);
    worst.take(wrong_zero ? inf : error_in_ulp(got, reference), static_cast<double>(x), static_cast<double>(y));
  };
  for (const double x : special) {
    for (const double y : special) test(static_cast<F>(x), static_cast<F>(y));
  }
  // Powers that neither overflow nor vanish: |y log2 x| below `reach`.
  constexpr double reach = sizeof(F) == 4 ? 150 : 1075;
  for (int i = 0; i < samples; ++i) {
    const F wide = static_cast<F>(std::exp((unit(random) - 0.5) * reach * 1.3));
    const F near_one = static_cast<F>(1 + (unit(random) - 0.5) * 0.6);
    for (const F x : {wide, near_one}) {
      test(x, static_cast<F>((2 * unit(random) - 1) *
                             std::min(1e6, reach / std::fabs(std::log2(static_cast<double>(x))))));
      test(x, static_cast<F>(static_cast<double>(x) * 2 * unit(random)));
    }
    test(-static_cast<F>(random() % 1000) / static_cast<F>(1 + random() % 7),
         static_cast<F>(static_cast<int>(random() % 100) - 50));
    const std::uint64_t a = random(), b = random();
    if constexpr (sizeof(F) == 4) {
      test(std::bit_cast<float>(static_cast<std::uint32_t>(a)), std::bit_cast<float>(static_cast<std::uint32_t>(b)));
    } else {
      test(std::bit_cast<double>(a), std::bit_cast<double>(b));
    }
  }
  return worst;
}

bool report(const char* name, const char* type, const Worst& w, double bound, bool binary) {
  std::printf("%-14s %4s %10.4f %7.2f   %a", name, type, w.error, bound, w.x);
  if (binary) std::printf(" %a", w.y);
  std::printf("%s\n", w.error <= bound ? "" : "   ABOVE ITS BOUND");
  return w.error <= bound;
}

template <class F>
bool measure_binaries(const char* type, double pow_bound, double hypot_bound, double atan2_bound, int samples) {
  const Binary<F> all[] = {{"pow", meaning::pow<F>, ref_pow, pow_bound},
                           {"hypot", meaning::hypot<F>, ref_hypot, hypot_bound},
                           {"atan2", meaning::atan2<F>, ref_atan2, atan2_bound}};
  bool ok = true;
  for (const Binary<F>& f : all) ok = report(f.name, type, measure(f, samples), f.bound, true) && ok;
  return ok;
}

}  // namespace

int main() {
  constexpr int samples = 20000;
  std::printf("samples\n%-14s %4s %10s %7s   at\n", "function", "type", "max ulp", "bound");
  bool ok = true;
  for (const Function& f : functions) ok = report(f.name, "f64", measure(f, samples), f.bound, false) && ok;
  ok = measure_binaries<float>("f32", 1.0, 1.0, 2.0, samples) && ok;
  ok = measure_binaries<double>("f64", 1.5, 1.0, 2.5, samples) && ok;
  return ok ? 0 : 1;
}
