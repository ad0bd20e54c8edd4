// Tensor expressions against plain loops: broadcasting, layouts, types, numbers that change, in-place assignment.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include "reference.h"

namespace {

template <class F>
std::vector<double> each(const std::vector<double>& a, const std::vector<double>& b, F f) {
  std::vector<double> out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(f(a[i], b[i]));
  return out;
}

}  // namespace

TEST_CASE("one kernel for an expression; new numbers compile nothing") {
  const auto x = tw::random_normal<float>(device(), {1000}, 1), y = tw::random_normal<float>(device(), {1000}, 2);
  const auto before = tw::launch_count();
  tw::Tensor<float> z = 2.0f * x + y * y - 1;
  CHECK(tw::launch_count() == before + 1);
  CHECK(error(doubles(z), each(doubles(x), doubles(y), [](double a, double b) { return 2 * a + b * b - 1; })) < 1e-6);
  for (float s = 0; s < 3; ++s) {
    tw::Tensor<float> w = s * x;
    CHECK(error(doubles(w), each(doubles(x), doubles(x), [s](double a, double) { return s * a; })) < 1e-7);
  }
}

TEST_CASE("shapes broadcast as in NumPy") {
  const auto m = tensor<float>({2, 3}, counting(6)), row = tensor<float>({3}, {10, 20, 30}),
             column = tensor<float>({2, 1}, {100, 200}), one = tensor<float>({1}, {5});
  CHECK(doubles(tw::Tensor<float>(m + row)) == std::vector<double>{10, 21, 32, 13, 24, 35});
  CHECK(doubles(tw::Tensor<float>(column - row)) == std::vector<double>{90, 80, 70, 190, 180, 170});
  CHECK(doubles(tw::Tensor<float>(m * one + column)) == std::vector<double>{100, 105, 110, 215, 220, 225});
  const auto zero_axes = tw::Tensor<float>::from_host(device(), {}, std::vector<float>{7});
  CHECK(doubles(tw::Tensor<float>(zero_axes + 1)) == std::vector<double>{8});
  CHECK(tw::Tensor<float>(zero_axes + 1).dims() == 0);
  const auto empty = tw::Tensor<float>::empty(device(), {0, 3});
  CHECK(tw::Tensor<float>(empty + row).size() == 0);
}

TEST_CASE("any mixture of layouts") {
  const auto x = tensor<float>({37, 53}, counting(37 * 53)), y = tensor<float>({53, 37}, counting(37 * 53));
  const auto sum = [](double a, double b) { return a + 2 * b; };
  const auto check = [&](const tw::Tensor<float>& a, const tw::Tensor<float>& b) {
    const tw::Tensor<float> z = a + 2 * b;
    CHECK(doubles(z) == each(doubles(a), doubles(b), sum));
  };
  check(x, y.transpose());
  check(x.transpose(), y);
  check(x.transpose(), y.flip(0));
  check(x.slice(1, 3, 50, 2), y.transpose().slice(1, 0, 24));
  check(x.slice(0, 0, 1).broadcast_to({53, 53}), x.slice(1, 4, 5).slice(0, 0, 1).broadcast_to({53, 53}));
  const auto six = tensor<float>({2, 3, 2, 3, 2, 3}, counting(216));
  check(six.permute({5, 3, 1, 0, 2, 4}), six.permute({1, 5, 3, 2, 4, 0}));
  check(six.permute({5, 4, 3, 2, 1, 0}), six.permute({1, 0, 3, 2, 5, 4}).reshape({3, 2, 3, 2, 3, 2}));
}

TEST_CASE("every element type, conversions between them") {
  const auto run = []<class T>(std::type_identity<T>) {
    const auto x = tensor<T>({100}, counting(100));
    const tw::Tensor<T> y = x + x;
    std::vector<double> expected;
    for (int i = 0; i < 100; ++i) {
      if constexpr (std::is_integral_v<T>) {
        expected.push_back(static_cast<double>(static_cast<T>(2 * i)));
      } else {
        expected.push_back(static_cast<double>(static_cast<T>(2 * static_cast<float>(static_cast<T>(i)))));
      }
    }
    CHECK(doubles(y) == expected);
    const tw::Tensor<double> wide = x.template to<double>() * 0.5;
    CHECK(error(doubles(wide), each(doubles(x), doubles(x), [](double a, double) { return a / 2; })) == 0);
  };
  run(std::type_identity<double>{});
  run(std::type_identity<float>{});
  run(std::type_identity<tw::f16>{});
  run(std::type_identity<tw::bf16>{});
  run(std::type_identity<tw::f8e4m3>{});
  run(std::type_identity<tw::f8e5m2>{});
  run(std::type_identity<std::int8_t>{});
  run(std::type_identity<std::int16_t>{});
  run(std::type_identity<std::int32_t>{});
  run(std::type_identity<std::int64_t>{});
  run(std::type_identity<std::uint8_t>{});
  run(std::type_identity<std::uint32_t>{});
  run(std::type_identity<std::uint64_t>{});
  const auto x = tensor<float>({4}, {-1, 0, 1, 2});
  const tw::Tensor<bool> positive = x > 0;
  CHECK(positive.to_host() == std::vector<bool>{false, false, true, true});
  const tw::Tensor<float> chosen = tw::where(positive, x, -1);
  CHECK(doubles(chosen) == std::vector<double>{-1, -1, 1, 2});
}

TEST_CASE("assigning makes a new tensor; assign() writes into the old one's memory") {
  auto x = tensor<float>({4}, {1, 2, 3, 4});
  const auto same = x;
  x = x + 1;
  CHECK(doubles(same) == std::vector<double>{1, 2, 3, 4});
  CHECK(doubles(x) == std::vector<double>{2, 3, 4, 5});
  same.assign(same * 10);
  CHECK(doubles(same) == std::vector<double>{10, 20, 30, 40});
  same.slice(0, 1, 4, 2).assign(x.slice(0, 0, 2) + 0);
  CHECK(doubles(same) == std::vector<double>{10, 2, 30, 3});
}

TEST_CASE("expressions kept across statements, and used twice") {
  const auto x = tw::random_normal<float>(device(), {257}, 9);
  const auto kept = tw::tanh(2.0f * x);
  const tw::Tensor<float> once = kept, twice = kept + kept;
  CHECK(doubles(twice) == each(doubles(once), doubles(once), [](double a, double b) { return a + b; }));
}
