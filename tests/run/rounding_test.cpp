// Rounding modes against the host's own: the floating-point environment for f32 and f64 arithmetic, exact arithmetic in
// double for conversions. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <bit>
#include <cfenv>

#include "reference.h"

namespace {

using In = tw::View<const float, 1>;

template <class T>
using Numbers = tw::View<const T, 1>;

template <class T>
const auto directed = tw::kernel("directed", [](Numbers<T> x, Numbers<T> y, Numbers<T> z, tw::View<T, 2> out,
                                                tw::Const<int> n) {
  auto a = tw::load(x, {0}, {n}), b = tw::load(y, {0}, {n}), c = tw::load(z, {0}, {n});
  const auto rows = [&](int first, auto add, auto sub, auto mul, auto div, auto root, auto fma) {
    tw::store(out, {first, 0}, add);
    tw::store(out, {first + 1, 0}, sub);
    tw::store(out, {first + 2, 0}, mul);
    tw::store(out, {first + 3, 0}, div);
    tw::store(out, {first + 4, 0}, root);
    tw::store(out, {first + 5, 0}, fma);
  };
  rows(0, tw::add_rn(a, b), tw::sub_rn(a, b), tw::mul_rn(a, b), tw::div_rn(a, b), tw::sqrt_rn(a), tw::fma_rn(a, b, c));
  rows(6, tw::add_rz(a, b), tw::sub_rz(a, b), tw::mul_rz(a, b), tw::div_rz(a, b), tw::sqrt_rz(a), tw::fma_rz(a, b, c));
  rows(12, tw::add_rd(a, b), tw::sub_rd(a, b), tw::mul_rd(a, b), tw::div_rd(a, b), tw::sqrt_rd(a), tw::fma_rd(a, b, c));
  rows(18, tw::add_ru(a, b), tw::sub_ru(a, b), tw::mul_ru(a, b), tw::div_ru(a, b), tw::sqrt_ru(a), tw::fma_ru(a, b, c));
});

// What the host computes in one mode; volatile keeps the compiler from doing it in another.
template <class T>
std::vector<T> on_host(int mode, T a, T b, T c) {
  volatile T x = a, y = b, z = c;
  std::fesetround(mode);
  volatile T r[] = {x + y, x - y, x * y, x / y, std::sqrt(x), std::fma(x, y, z)};
  std::fesetround(FE_TONEAREST);
  return {r[0], r[1], r[2], r[3], r[4], r[5]};
}

template <class T>
bool same(T a, T b) {
  using U = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<U>(a) == std::bit_cast<U>(b);
}

template <class T>
const auto narrow = tw::kernel("narrow", [](In x, tw::View<T, 2> y, tw::Const<int> n) {
  auto v = tw::load(x, {0}, {n});
  tw::store(y, {0, 0}, tw::round_to<T>(v, tw::Rounding::zero));
  tw::store(y, {1, 0}, tw::round_to<T>(v, tw::Rounding::down));
  tw::store(y, {2, 0}, tw::round_to<T>(v, tw::Rounding::up));
  tw::store(y, {3, 0}, tw::round_to<T>(v, tw::Rounding::nearest));
});

std::vector<float> interesting() {
  std::vector<float> v{0.0f,
                       -0.0f,
                       1.0f,
                       -1.0f,
                       0x1p-149f,
                       -0x1p-149f,
                       0x1p-126f,
                       0x1.fffffep127f,
                       -0x1.fffffep127f,
                       HUGE_VALF,
                       -HUGE_VALF,
                       std::nanf(""),
                       0x1.000002p0f,
                       3.0f,
                       0.1f,
                       -7.0f};
  std::uint64_t s = 99;
  while (v.size() < 256) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    v.push_back(v.size() % 2 == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(s >> 32))
                                  : std::ldexp(static_cast<float>(static_cast<std::int32_t>(s >> 32)), -31));
  }
  return v;
}

// Ends of the range, where what a rounded result lost is not a number of its own, and any exponents between.
std::vector<double> interesting_f64() {
  std::vector<double> v{0.0,       -0.0,         1.0,          -1.0,
                        0x1p-1074, -0x1p-1074,   0x1p-1022,    0x1.fffffffffffffp-1022,
                        HUGE_VAL,  -HUGE_VAL,    std::nan(""), 0x1.fffffffffffffp1023,
                        0x1p1000,  -0x1.8p-1000, 0x1p-550,     0x1.fffffffffffffp-400,
                        0x1p-537,  0x1.8p-538,   3.0,          0.1,
                        0x1p523,   -0x1p-501,    0x1p900,      0x1.0000000000001p-450,
                        0x1p-52,   0x1p53,       -7.0,         0x1.fffffffffffffp511};
  std::uint64_t s = 7;
  const auto next = [&] { return s = s * 6364136223846793005u + 1442695040888963407u; };
  while (v.size() < 448) {
    const std::uint64_t bits = (next() >> 32) << 32 | next() >> 32;
    v.push_back(v.size() % 2 == 0 ? std::bit_cast<double>(bits)
                                  : std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)), -63));
  }
  return v;
}

template <class T>
void check_directed(const std::vector<T>& v) {
  const int n = static_cast<int>(v.size());
  for (const int turn : {1, 7, 64}) {
    std::vector<T> b, c;
    for (int i = 0; i < n; ++i) {
      b.push_back(v[static_cast<std::size_t>((i + turn) % n)]);
      c.push_back(v[static_cast<std::size_t>((i * 3 + turn) % n)]);
    }
    for (int i = 0; i < n; i += 5) {
      const auto k = static_cast<std::size_t>(i);
      b[k] = -v[k];                                                            // exact zero sums
      c[(k + 2) % c.size()] = -v[(k + 2) % c.size()] * b[(k + 2) % b.size()];  // sums that cancel
    }
    const auto out = tw::Tensor<T>::zeros(device(), {24, n});
    directed<T>.launch(device().stream(), {1}, tw::Tensor<T>::from_host(device(), {n}, v),
                       tw::Tensor<T>::from_host(device(), {n}, b), tw::Tensor<T>::from_host(device(), {n}, c), out, n);
    const auto got = out.to_host();
    const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    int wrong = 0;
    for (int m = 0; m < 4; ++m) {
      for (int i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        const std::vector<T> expected = on_host(modes[m], v[k], b[k], c[k]);
        for (int op = 0; op < 6; ++op) {
          const T g = got[static_cast<std::size_t>((m * 6 + op) * n + i)];
          if (same(g, expected[static_cast<std::size_t>(op)])) continue;
          if (++wrong < 5)
            MESSAGE("mode " << m << ", op " << op << ": " << v[k] << ", " << b[k] << ", " << c[k] << " gives " << g
                            << ", not " << expected[static_cast<std::size_t>(op)]);
        }
      }
    }
    CHECK(wrong == 0);
  }
}

// The neighbours of a value among all values of T, by trying every bit pattern.
template <class T>
void check_narrow(double lowest, double highest, bool saturates) {
  std::vector<float> x = interesting();
  for (const float f :
       {1.0f + 1e-4f, 1.9999f, 5.96e-8f, 65504.0f, 65519.0f, 70000.0f, -70000.0f, 447.0f, 460.0f, 3e-3f})
    x.push_back(f);
  const auto n = static_cast<int>(x.size());
  const auto y = tw::Tensor<T>::zeros(device(), {4, n});
  narrow<T>.launch(device().stream(), {1}, tw::Tensor<float>::from_host(device(), {n}, x), y, n);
  const auto got = y.to_host();
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    const double v = x[static_cast<std::size_t>(i)];
    const auto value = [&](int row) {
      return static_cast<double>(static_cast<float>(got[static_cast<std::size_t>(row * n + i)]));
    };
    const double zero = value(0), down = value(1), up = value(2), nearest = value(3);
    if (std::isnan(v)) {
      wrong += !(std::isnan(zero) && std::isnan(down) && std::isnan(up));
      continue;
    }
    const bool outside = v > highest || v < lowest;
    if (saturates && outside) {
      wrong += zero != nearest || down != nearest || up != nearest;
      continue;
    }
    const bool exact = nearest == v;
    wrong += !(down <= v && v <= up);
    wrong += exact ? (down != v || up != v) : !(nearest == down || nearest == up);
    wrong += zero != (v < 0 ? up : down) && !(zero == 0 && v == 0);
    // Nothing of T lies between the two.
    if (!exact && std::isfinite(down) && std::isfinite(up)) {
      const double middle = down / 2 + up / 2;
      const auto back = static_cast<double>(static_cast<float>(static_cast<T>(static_cast<float>(middle))));
      wrong += back != down && back != up;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("f32 arithmetic in all four modes is the host's, bit for bit") { check_directed(interesting()); }

TEST_CASE("f64 arithmetic in all four modes is the host's, bit for bit") { check_directed(interesting_f64()); }

TEST_CASE("conversions to narrower floats in all four modes") {
  check_narrow<tw::f16>(-HUGE_VAL, HUGE_VAL, false);
  check_narrow<tw::bf16>(-HUGE_VAL, HUGE_VAL, false);
  check_narrow<tw::f8e4m3>(-448, 448, true);
  check_narrow<tw::f8e5m2>(-57344, 57344, true);
}

TEST_CASE("umulhi and clamp") {
  const auto k = tw::kernel(
      "umulhi", [](tw::View<const std::uint32_t, 1> x, tw::View<std::uint32_t, 1> y, In f, tw::View<float, 1> g) {
        auto v = tw::load(x, {0}, {4});
        tw::store(y, {0}, tw::umulhi(v, v));
        tw::store(g, {0}, tw::clamp(tw::load(f, {0}, {4}), -1.0f, 1.0f));
      });
  const auto x = tensor<std::uint32_t>({4}, {4294967295.0, 65536, 3, 2147483648.0}),
             y = tw::Tensor<std::uint32_t>::zeros(device(), {4});
  const auto f = tensor<float>({4}, {-5, 0.5, 7, std::nan("")}), g = tw::Tensor<float>::zeros(device(), {4});
  k.launch(device().stream(), {1}, x, y, f, g);
  CHECK(y.to_host() == std::vector<std::uint32_t>{4294967294u, 1, 0, 1073741824});
  CHECK(error(doubles(g), {-1, 0.5, 1, std::nan("")}) == 0);
}
