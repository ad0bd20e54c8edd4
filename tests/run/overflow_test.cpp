// Options{.overflow}: additions, subtractions and products of signed integers that do not fit fail the launch with the
// user's line; without it they wrap. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "reference.h"

namespace {

constexpr int sum_line = __LINE__ + 5;
template <class T>
const auto arithmetic = tw::kernel(
    "arithmetic", [](tw::View<const T, 1> a, tw::View<const T, 1> b, tw::View<T, 2> y, tw::Const<int> which) {
      auto x = tw::load(a, {0}, {8}), z = tw::load(b, {0}, {8});
      if (which == 0) tw::store(y, {0, 0}, x + z);
      if (which == 1) tw::store(y, {0, 0}, x - z);
      if (which == 2) tw::store(y, {0, 0}, x * z);
    });

// The message of a launch that is checked; "" where it passes.
template <class T>
std::string message_of(int which, std::int64_t a, std::int64_t b) {
  const auto make = [](std::int64_t v) {
    return tw::Tensor<T>::from_host(device(), {1}, std::vector<T>{static_cast<T>(v)});
  };
  const auto y = tw::Tensor<T>::zeros(device(), {1, 1});
  const auto x = make(a), z = make(b);
  arithmetic<T>.launch(device().stream(), {1}, x, z, y, which);
  const T wrapped = y.to_host()[0];
  try {
    arithmetic<T>.launch(device().stream(), {1}, x, z, y, which, {.overflow = true});
    device().synchronize();
  } catch (const tw::LaunchError& e) {
    CHECK(y.to_host()[0] == wrapped);
    return e.what();
  }
  return "";
}

template <class T>
void check_edges() {
  constexpr auto low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const std::int64_t edges[] = {low, low + 1, -2, -1, 0, 1, 2, high / 2, high / 2 + 1, high - 1, high};
  for (const std::int64_t a : edges) {
    for (const std::int64_t b : edges) {
      T out = 0;
      const bool expected[] = {__builtin_add_overflow(static_cast<T>(a), static_cast<T>(b), &out),
                               __builtin_sub_overflow(static_cast<T>(a), static_cast<T>(b), &out),
                               __builtin_mul_overflow(static_cast<T>(a), static_cast<T>(b), &out)};
      for (int which = 0; which < 3; ++which) {
        const bool found = !message_of<T>(which, a, b).empty();
        CHECK_MESSAGE(found == expected[which], a << (which == 0 ? " + " : which == 1 ? " - " : " * ") << b);
      }
    }
  }
}

const auto hashed = tw::kernel("hashed", [](tw::View<const std::uint32_t, 1> x, tw::View<std::uint32_t, 1> y) {
  tw::store(y, {0}, tw::load(x, {0}, {8}) * 2654435761u + 4294967295u);
});

}  // namespace

TEST_CASE("overflow of i32 and i64 at every pair of edge values") {
  check_edges<std::int32_t>();
  check_edges<std::int64_t>();
}

TEST_CASE("overflow of narrow integers") {
  CHECK(message_of<std::int8_t>(0, 127, 1).find("add overflows i8") != std::string::npos);
  CHECK(message_of<std::int8_t>(0, 126, 1).empty());
  CHECK(message_of<std::int16_t>(2, 256, -128).empty());
  CHECK(message_of<std::int16_t>(2, 256, 128).find("mul overflows i16") != std::string::npos);
}

TEST_CASE("an overflow is reported with its line; unsigned numbers wrap") {
  const std::string m = message_of<int>(0, std::numeric_limits<int>::max(), 1);
  CHECK(m.find("overflow_test.cpp:" + std::to_string(sum_line)) != std::string::npos);
  CHECK(m.find("add overflows i32") != std::string::npos);
  CHECK(m.find("program 0") != std::string::npos);
  const auto x = tw::Tensor<std::uint32_t>::from_host(device(), {1}, std::vector<std::uint32_t>{4294967295u});
  const auto y = tw::Tensor<std::uint32_t>::zeros(device(), {1});
  hashed.launch(device().stream(), {1}, x, y, {.overflow = true});
  CHECK(y.to_host()[0] == 4294967295u * 2654435761u + 4294967295u);
}
