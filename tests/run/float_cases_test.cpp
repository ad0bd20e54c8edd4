// Cases from the field on floating point: NaN and ties in extrema, division, tf32, exp and activation tails, narrow
// accumulation, fp8, conversion to integers, contraction. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "reference.h"

namespace {

using In = tw::View<const float, 1>;
using Out = tw::View<float, 1>;

const double not_a_number = std::nan(""), inf = HUGE_VAL;

const auto extrema = tw::kernel("extrema", [](In x, Out y, tw::View<int, 1> at, tw::Const<int> block) {
  auto v = tw::load(x, {0}, {block});
  tw::store(y, {0}, tw::max(v, 0));
  tw::store(y, {1}, tw::min(v, 0));
  tw::store(y, {2}, tw::nanmax(v, 0));
  tw::store(y, {3}, tw::nanmin(v, 0));
  tw::store(at, {0}, tw::argmax(v, 0));
  tw::store(at, {1}, tw::argmin(v, 0));
});

struct Extrema {
  std::vector<double> values;
  std::vector<int> indices;
};
Extrema extrema_of(const std::vector<double>& x, int block, int warps = 0) {
  const auto y = tw::Tensor<float>::zeros(device(), {4});
  const auto at = tw::Tensor<int>::zeros(device(), {2});
  extrema.launch(device().stream(), {1}, tensor<float>({static_cast<tw::index_t>(x.size())}, x), y, at, block,
                 {.warps = warps});
  return {doubles(y), at.to_host()};
}

const auto divide = tw::kernel("divide", [](In x, In y, Out z, tw::Const<int> block) {
  auto at = tw::program_id(0) * block;
  tw::store(z, {at}, tw::load(x, {at}, {block}) / tw::load(y, {at}, {block}));
});

template <class F>
std::vector<double> unary(const F& kernel, const std::vector<double>& x) {
  const auto n = static_cast<tw::index_t>(x.size());
  const auto y = tw::Tensor<float>::zeros(device(), {n});
  kernel.launch(device().stream(), {1}, tensor<float>({n}, x), y);
  return doubles(y);
}

std::uint32_t bits(double x) { return std::bit_cast<std::uint32_t>(static_cast<float>(x)); }

template <class T>
const auto convert =
    tw::kernel("convert", [](In x, tw::View<T, 1> y) { tw::store(y, {0}, tw::load(x, {0}, {16}).template to<T>()); });

template <class T>
std::vector<T> converted(std::vector<double> x) {
  const std::size_t n = x.size();
  x.resize(16, 0);
  const auto y = tw::Tensor<T>::zeros(device(), {16});
  convert<T>.launch(device().stream(), {1}, tensor<float>({16}, x), y);
  std::vector<T> all = y.to_host();
  all.resize(n);
  return all;
}
template <class T>
std::vector<double> rounded(const std::vector<double>& x) {
  std::vector<double> out;
  for (const T v : converted<T>(x)) out.push_back(static_cast<double>(static_cast<float>(v)));
  return out;
}

}  // namespace

TEST_CASE("case 10: NaN in max, min, argmax and argmin, in every order") {
  std::vector<double> x{6, 8, not_a_number};
  std::vector<std::size_t> order{0, 1, 2};
  do {
    const std::vector<double> v{x[order[0]], x[order[1]], x[order[2]]};
    const Extrema e = extrema_of(v, 4);
    const int at = static_cast<int>(std::find(order.begin(), order.end(), 2u) - order.begin());
    CHECK(error(e.values, {not_a_number, not_a_number, 8, 6}) == 0);
    CHECK(e.indices == std::vector<int>{at, at});
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(error(extrema_of({inf, not_a_number}, 2).values, {not_a_number, not_a_number, inf, inf}) == 0);
  CHECK(error(extrema_of({not_a_number, inf}, 2).values, {not_a_number, not_a_number, inf, inf}) == 0);
  const Extrema all = extrema_of(std::vector<double>(20, not_a_number), 32);
  CHECK(error(all.values, {not_a_number, not_a_number, not_a_number, not_a_number}) == 0);
  CHECK(all.indices == std::vector<int>{0, 0});
}

TEST_CASE("case 11: the lowest index wins ties") {
  for (const int warps : {1, 4}) {
    CHECK(extrema_of(std::vector<double>(1024, 5), 1024, warps).indices == std::vector<int>{0, 0});
    CHECK(extrema_of({1, 3, 3, 2}, 4, warps).indices == std::vector<int>{1, 0});
    for (const int at : {31, 511}) {
      std::vector<double> x(1024, 0);
      x[at] = x[at + 1] = 9;
      CHECK(extrema_of(x, 1024, warps).indices[0] == at);
      for (double& v : x) v = -v;
      CHECK(extrema_of(x, 1024, warps).indices[1] == at);
    }
    CHECK(extrema_of({-0.0, 0.0}, 2, warps).indices == std::vector<int>{0, 0});
    CHECK(extrema_of({0.0, -0.0}, 2, warps).indices == std::vector<int>{0, 0});
  }
  const auto columns = tw::kernel("columns", [](tw::View<const float, 2> x, tw::View<int, 1> at) {
    tw::store(at, {0}, tw::argmax(tw::load(x, {0, 0}, {64, 64}), 0));
  });
  const auto at = tensor<int>({64}, std::vector<double>(64, -1));
  columns.launch(device().stream(), {1}, tensor<float>({64, 64}, std::vector<double>(4096, 2)), at);
  CHECK(at.to_host() == std::vector<int>(64, 0));
}

TEST_CASE("case 13: division is correctly rounded") {
  std::vector<double> x{4.6875}, y{0.9375};
  for (int t = 1; t <= 1024; ++t) {
    x.push_back(t);
    y.push_back(t);
  }
  std::uint64_t s = 7;
  const auto next = [&] {
    return s = s * 6364136223846793005u + 1442695040888963407u, static_cast<std::uint32_t>(s >> 32);
  };
  const bool fast = device().kind() == tw::DeviceKind::cpu || device().kind() == tw::DeviceKind::cuda;
  const int pairs = fast ? 1'000'000 : 20'000;
  for (int i = 0; i < pairs; ++i) {  // q * d exact: the quotient is q
    const double q = next() % 4096, d = std::ldexp(1 + next() % 4095, static_cast<int>(next() % 40) - 20);
    x.push_back(q * d);
    y.push_back(d);
  }
  for (int i = 0; i < pairs; ++i) {
    x.push_back(std::bit_cast<float>(next()));
    y.push_back(std::bit_cast<float>(next()));
  }
  const auto n = static_cast<tw::index_t>(x.size());
  const auto z = tw::Tensor<float>::zeros(device(), {n});
  divide.launch(device().stream(), {tw::cdiv(n, 1024)}, tensor<float>({n}, x), tensor<float>({n}, y), z, 1024);
  const auto got = z.to_host();
  CHECK(bits(got[0]) == 0x40A00000);
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float expected = static_cast<float>(x[i]) / static_cast<float>(y[i]);
    wrong += std::isnan(expected) ? !std::isnan(got[i]) : bits(got[i]) != bits(expected);
  }
  CHECK(wrong == 0);
}

TEST_CASE("case 14: f32 products are in full f32; tf32 rounds to nearest even where it is asked for") {
  const auto run = [](float first, tw::Precision p) {
    const auto k = tw::kernel("precision", [](tw::View<const float, 2> a, tw::View<const float, 2> b,
                                              tw::View<float, 2> c, tw::Const<tw::Precision> how) {
      tw::store(c, {0, 0}, tw::dot(tw::load(a, {0, 0}, {16, 16}), tw::load(b, {0, 0}, {16, 16}), how));
    });
    std::vector<double> a(256, 0), identity(256, 0);
    a[0] = first;
    for (int i = 0; i < 16; ++i) identity[i * 17] = 1;
    const auto c = tw::Tensor<float>::zeros(device(), {16, 16});
    k.launch(device().stream(), {1}, tensor<float>({16, 16}, a), tensor<float>({16, 16}, identity), c, p);
    return c.to_host()[0];
  };
  CHECK(run(0x1.002p0f, tw::Precision::full) == 1.00048828125f);
  CHECK(run(0x1.002p0f, tw::Precision::tf32) == 1.0f);
  CHECK(run(0x1.006p0f, tw::Precision::full) == 0x1.006p0f);
  CHECK(run(0x1.006p0f, tw::Precision::tf32) == 1.001953125f);
}

TEST_CASE("case 16: exp over its whole range") {
  const auto k = tw::kernel("exps", [](In x, Out y) { tw::store(y, {0}, tw::exp(tw::load(x, {0}, {8}))); });
  const auto y = unary(k, {88, -87, 1, -103, 0, 89, -inf, not_a_number});
  const std::uint32_t expected[] = {0x7EF882B7, 0x00B33687, 0x402DF854, 0x00000001};
  for (int i = 0; i < 4; ++i) CHECK(std::abs(static_cast<std::int64_t>(bits(y[i])) - expected[i]) <= 2);
  CHECK(y[4] == 1);
  CHECK(y[5] == inf);
  CHECK(bits(y[6]) == 0);
  CHECK(std::isnan(y[7]));
}

TEST_CASE("case 17: the tails of activations") {
  const auto k = tw::kernel("tails", [](In x, Out y) {
    const auto at = [&](int i) { return tw::load(x, {i}, {1}); };
    tw::store(y, {0}, tw::tanh(at(0)));
    tw::store(y, {1}, tw::tanh(at(1)));
    tw::store(y, {2}, tw::gelu_tanh(at(2)));
    tw::store(y, {3}, tw::gelu_tanh(at(3)));
    tw::store(y, {4}, tw::gelu(at(4)));
    tw::store(y, {5}, tw::gelu(at(5)));
    tw::store(y, {6}, tw::gelu(at(6)));
    tw::store(y, {7}, tw::gelu(at(7)));
    tw::store(y, {8}, tw::gelu_tanh(at(8)));
    tw::store(y, {9}, tw::sigmoid(at(9)));
    tw::store(y, {10}, tw::softplus(at(10)));
  });
  const auto y = unary(k, {50, -50, -6, -8, -6, -10, 50, 1, 1, -100, 100});
  const std::vector<double> expected{1,  -1,       -8.43965e-11, -3.1078e-21, -5.91953e-9, -7.61985e-23,
                                     50, 0.841345, 0.841192,     3.7e-44,     100};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i == 9) {
      CHECK((y[i] == 0 || std::fabs(y[i] - expected[i]) < 5e-45));
    } else {
      CHECK(std::fabs(y[i] - expected[i]) <= 1e-5 * std::fabs(expected[i]));
    }
  }
}

TEST_CASE("case 19: narrow sums and products accumulate in f32") {
  const auto sums = tw::kernel("narrow_sums", [](tw::View<const tw::f16, 1> h, tw::View<const tw::bf16, 1> b, Out y) {
    auto v = tw::load(h, {0}, {4096});
    tw::store(y, {0}, tw::sum(v, 0).to<float>());
    tw::store(y, {1}, tw::sum(tw::load(b, {0}, {512}), 0).to<float>());
    auto row = tw::reshape(v, {1, 4096}), column = tw::reshape(v, {4096, 1});
    tw::store(y, {2}, tw::ravel(tw::dot(row, column)));
    tw::Var acc = tw::zeros<float>(4096);
    for (auto k : tw::range(0, 16)) {
      (void)k;
      acc += v.to<float>();
    }
    tw::store(y, {3}, tw::sum(acc, 0) / 65536.0f);
  });
  const auto h = tensor<tw::f16>({4096}, std::vector<double>(4096, 1));
  const auto b = tensor<tw::bf16>({512}, std::vector<double>(512, 1));
  const auto y = tw::Tensor<float>::zeros(device(), {4});
  sums.launch(device().stream(), {1}, h, b, y);
  CHECK(doubles(y) == std::vector<double>{4096, 512, 4096, 1});
}

TEST_CASE("case 20: fp8 conversions round to nearest even once and saturate") {
  CHECK(rounded<tw::f8e5m2>({1.125, 1.375, 1.1250001, 61439}) == std::vector<double>{1.0, 1.5, 1.25, 57344});
  CHECK(rounded<tw::f8e4m3>({1.0625, 1.0625001, 464, 465, 1000, inf, -1000}) ==
        std::vector<double>{1.0, 1.125, 448, 448, 448, 448, -448});
  CHECK(std::isnan(rounded<tw::f8e4m3>({not_a_number})[0]));
  // Every byte comes back as itself.
  const auto k = tw::kernel("fp8_bytes", [](tw::View<const std::uint8_t, 1> x, tw::View<std::uint8_t, 2> y) {
    auto v = tw::load(x, {0}, {256});
    tw::store(y, {0, 0}, v.bitcast<tw::f8e4m3>().to<float>().to<tw::f8e4m3>().bitcast<std::uint8_t>());
    tw::store(y, {1, 0}, v.bitcast<tw::f8e5m2>().to<float>().to<tw::f8e5m2>().bitcast<std::uint8_t>());
  });
  const auto y = tw::Tensor<std::uint8_t>::zeros(device(), {2, 256});
  k.launch(device().stream(), {1}, tensor<std::uint8_t>({256}, counting(256)), y);
  const auto got = y.to_host();
  for (int i = 0; i < 256; ++i) {
    const bool nan4 = (i & 0x7f) == 0x7f, nan5 = (i & 0x7f) > 0x7c, infinite5 = (i & 0x7f) == 0x7c;
    CHECK((nan4 ? (got[i] & 0x7f) == 0x7f : got[i] == i));
    // An infinity saturates like every value out of range.
    CHECK((nan5 ? (got[256 + i] & 0x7f) > 0x7c : infinite5 ? got[256 + i] == i - 1 : got[256 + i] == i));
  }
}

TEST_CASE("case 22: conversion to integers truncates and saturates") {
  CHECK(converted<std::int8_t>({510, -1e9, inf, not_a_number, -0.9}) == std::vector<std::int8_t>{127, -128, 127, 0, 0});
  CHECK(converted<std::uint32_t>({-1, 4.3e9}) == std::vector<std::uint32_t>{0, 4294967295u});
  CHECK(converted<int>({2147483648.0}) == std::vector<int>{2147483647});
  const auto k = tw::kernel("to_float", [](tw::View<const std::uint32_t, 1> x, Out y) {
    tw::store(y, {0}, tw::load(x, {0}, {4}).to<float>());
  });
  const auto y = tw::Tensor<float>::zeros(device(), {4});
  k.launch(device().stream(), {1}, tensor<std::uint32_t>({4}, {16777217, 16777219, 4294967295.0, 1}), y);
  CHECK(doubles(y) == std::vector<double>{16777216, 16777220, 4294967296.0, 1});
}

TEST_CASE("case 23: contraction is the language's, on every device") {
  const auto k = tw::kernel("contracted", [](In x, Out y) {
    auto a = tw::load(x, {0}, {1});
    tw::store(y, {0}, a * a - (1.0f + 0x1p-11f));
  });
  const auto x = tensor<float>({1}, {1 + std::ldexp(1, -12)}), y = tw::Tensor<float>::zeros(device(), {1});
  k.launch(device().stream(), {1}, x, y);
  CHECK(doubles(y) == std::vector<double>{5.9604645e-08f});
  k.launch(device().stream(), {1}, x, y, {.contract = false});
  CHECK(doubles(y) == std::vector<double>{0.0});
}
