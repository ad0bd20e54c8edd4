// Volatile accesses give what is in memory, through views and pointers, whole tiles and scalars, in loops and under
// masks. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include "reference.h"

namespace {

// Two loads of the same place with a store between and without one: each is what memory holds then.
const auto twice = tw::kernel("volatile_twice", [](tw::View<float, 1> x, tw::View<float, 2> y, tw::Const<int> n) {
  auto before = tw::load(x, {0}, {n}, {.cache = tw::Cache::volatile_});
  auto again = tw::load(x, {0}, {n}, {.cache = tw::Cache::volatile_});
  tw::store(x, {0}, before + again, {.cache = tw::Cache::volatile_});
  tw::store(y, {0, 0}, before);
  tw::store(y, {1, 0}, tw::load(x, {0}, {n}, {.cache = tw::Cache::volatile_}));
});

// A counter in memory, read and written in a loop that the compiler may not keep in a register.
const auto count = tw::kernel("volatile_count", [](tw::View<int, 1> x, tw::Scalar<int> last) {
  tw::while_([&] { return tw::sum(tw::load(x, {0}, {1}, {.cache = tw::Cache::volatile_}), 0) < last; },
             [&] { tw::store(x, {0}, tw::load(x, {0}, {1}, {.cache = tw::Cache::volatile_}) + 1); });
});

const auto through_pointers =
    tw::kernel("volatile_pointers", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> n) {
      auto i = tw::arange(n);
      auto v = tw::load(x.ptr() + (n - 1 - i), {.pad = -1, .mask = i < n - 2, .cache = tw::Cache::volatile_});
      tw::store(y.ptr() + i, v * 2.0f, {.mask = i < n - 1, .cache = tw::Cache::volatile_});
    });

}  // namespace

TEST_CASE("volatile loads and stores of blocks, past an edge too") {
  for (const int n : {1, 7, 64}) {
    const auto values = counting(static_cast<std::size_t>(n));
    const auto x = tensor<float>({n}, values);
    const auto y = tw::Tensor<float>::zeros(device(), {2, n});
    twice.launch(device().stream(), {1}, x, y, n + 1);
    std::vector<double> expected = values;
    for (const double v : values) expected.push_back(2 * v);
    CHECK(doubles(y) == expected);
  }
}

TEST_CASE("a volatile counter in a loop") {
  const auto x = tensor<int>({1}, {3});
  count.launch(device().stream(), {1}, x, 20);
  CHECK(doubles(x) == std::vector<double>{20});
}

TEST_CASE("volatile accesses through pointers under masks") {
  const auto y = tensor<float>({6}, {-7, -7, -7, -7, -7, -7});
  through_pointers.launch(device().stream(), {1}, tensor<float>({6}, counting(6)), y, 6);
  CHECK(doubles(y) == std::vector<double>{10, 8, 6, 4, -2, -7});
}
