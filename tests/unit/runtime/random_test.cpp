// Random tensors: the published vectors of Philox, the same numbers everywhere, right distributions.
// Tests jit/runtime/random.
#include "tileweave/jit/runtime/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tileweave/jit/base/error.h"

namespace tileweave::runtime {
namespace {

template <class T>
std::vector<T> values_of(const AnyTensor& t) {
  std::vector<T> v(static_cast<std::size_t>(t.size()));
  t.to_host(std::as_writable_bytes(std::span(v)));
  return v;
}

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  using C = std::array<std::uint32_t, 4>;
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == C{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == C{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        C{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("an element depends on its index and the seed alone") {
  const Device cpu = Device::cpu();
  const auto small = values_of<float>(random_normal(cpu, Dtype::f32, {1001}, 7));
  const auto large = values_of<float>(random_normal(cpu, Dtype::f32, {100, 1001}, 7));
  for (std::size_t i = 0; i < small.size(); ++i) CHECK(small[i] == large[i]);
  CHECK(values_of<float>(random_normal(Device::interpret(), Dtype::f32, {1001}, 7)) == small);
  CHECK(values_of<float>(random_normal(cpu, Dtype::f32, {1001}, 8)) != small);
  const auto wide = values_of<double>(random_normal(cpu, Dtype::f64, {1001}, 7));
  const auto half = values_of<f16>(random_normal(cpu, Dtype::f16, {1001}, 7));
  for (std::size_t i = 0; i < small.size(); ++i) {
    CHECK(static_cast<float>(wide[i]) == small[i]);
    CHECK(f16(wide[i]).bits == half[i].bits);
  }
}

TEST_CASE("normal numbers have mean 0, variance 1 and the tails they should") {
  const auto v = values_of<double>(random_normal(Device::cpu(), Dtype::f64, {1'000'000}, 3));
  double mean = 0, square = 0, fourth = 0;
  int beyond_two = 0;
  for (const double x : v) {
    mean += x;
    square += x * x;
    fourth += x * x * x * x;
    beyond_two += std::fabs(x) > 2;
  }
  const double n = static_cast<double>(v.size());
  CHECK(std::fabs(mean / n) < 0.005);  // five standard errors
  CHECK(std::fabs(square / n - 1) < 0.007);
  CHECK(std::fabs(fourth / n - 3) < 0.05);
  CHECK(std::fabs(beyond_two / n - 0.0455) < 0.0011);
}

TEST_CASE("uniform numbers fill their range") {
  const Device cpu = Device::cpu();
  const auto f = values_of<float>(random_uniform(cpu, Dtype::f32, {100'000}, 1, -2, 6));
  double mean = 0;
  for (const float x : f) {
    mean += static_cast<double>(x);
    if (!(x >= -2 && x <= 6)) FAIL("out of range: " << x);
  }
  CHECK(std::fabs(mean / 100'000 - 2) < 0.04);
  std::vector<int> counts(7);
  for (const std::int8_t x : values_of<std::int8_t>(random_uniform(cpu, Dtype::i8, {70'000}, 2, -3, 4))) {
    REQUIRE(x >= -3);
    REQUIRE(x < 4);
    ++counts[static_cast<std::size_t>(x + 3)];
  }
  for (const int c : counts) CHECK(std::abs(c - 10'000) < 500);
  bool high = false, low = false;
  for (const std::uint64_t x : values_of<std::uint64_t>(random_uniform(cpu, Dtype::u64, {1000}, 2, 0, 0x1p64))) {
    high |= x >> 63 != 0;
    low |= x >> 63 == 0;
  }
  CHECK((high && low));
  int trues = 0;
  for (const std::byte b : random_uniform(cpu, Dtype::boolean, {10'000}, 5).to_host()) trues += b == std::byte{1};
  CHECK(std::abs(trues - 5000) < 250);
}

TEST_CASE("ranges that are none are refused") {
  const Device cpu = Device::cpu();
  CHECK_THROWS_WITH_AS(
      random_normal(cpu, Dtype::i32, {1}, 0, {"user.cpp", 3}),
      "user.cpp:3: error: random_normal: i32 is no float type\n  help: use random_uniform for integers", LaunchError);
  CHECK_THROWS_WITH_AS(random_uniform(cpu, Dtype::i8, {1}, 0, 0, 200, {"user.cpp", 3}),
                       "user.cpp:3: error: random_uniform: [0.000000, 200.000000) is no range of i8", LaunchError);
  CHECK_THROWS_AS(random_uniform(cpu, Dtype::u8, {1}, 0, 5, 5), LaunchError);
  CHECK_THROWS_AS(random_uniform(cpu, Dtype::f32, {1}, 0, 2, 1), LaunchError);
  CHECK_THROWS_AS(random_uniform(cpu, Dtype::f32, {1}, 0, 0, INFINITY), LaunchError);
  CHECK_THROWS_AS(random_uniform(cpu, Dtype::i32, {1}, 0, NAN, 3), LaunchError);
}

}  // namespace
}  // namespace tileweave::runtime
