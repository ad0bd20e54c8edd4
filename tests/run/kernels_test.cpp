// Kernels as a user writes them: loops, branches, partial blocks, layouts, empty tensors, threads.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <thread>

#include "reference.h"

using In = tw::View<const float, 1>;
using Out = tw::View<float, 1>;
using In2 = tw::View<const float, 2>;
using Out2 = tw::View<float, 2>;

namespace {

const auto blockwise_sum = tw::kernel("blockwise_sum", [](In x, Out y, tw::Const<int> block) {
  tw::Var acc = tw::zeros<float>(block);
  for (auto k : tw::range(0, x.extent(0), block)) acc += tw::load(x, {k}, {block});
  tw::store(y, {0}, tw::sum(acc, 0));
});

const auto softmax = tw::kernel("softmax", [](In2 x, Out2 y, tw::Const<int> block) {
  auto row = tw::program_id(0);
  auto v = tw::load(x, {row, 0}, {1, block});
  auto e = tw::exp(v - tw::max(v, 1, tw::keep_dims));
  tw::store(y, {row, 0}, e / tw::sum(e, 1, tw::keep_dims));
});

const auto copy2 = tw::kernel("copy2", [](In2 x, Out2 y, tw::Const<int> m, tw::Const<int> n) {
  auto i = tw::program_id(0) * m;
  auto j = tw::program_id(1) * n;
  tw::store(y, {i, j}, tw::load(x, {i, j}, {m, n}));
});

std::vector<double> softmax_of(const std::vector<double>& x, int rows, int cols) {
  std::vector<double> y(x.size());
  for (int r = 0; r < rows; ++r) {
    double top = -HUGE_VAL, total = 0;
    for (int c = 0; c < cols; ++c) top = std::fmax(top, x[r * cols + c]);
    for (int c = 0; c < cols; ++c) total += std::exp(x[r * cols + c] - top);
    for (int c = 0; c < cols; ++c) y[r * cols + c] = std::exp(x[r * cols + c] - top) / total;
  }
  return y;
}

}  // namespace

TEST_CASE("ten ones summed by blocks of four are ten") {
  for (const int n : {1, 3, 4, 10, 1000}) {
    const auto x = tensor<float>({n}, std::vector<double>(n, 1));
    const auto y = tensor<float>({1}, {-1});
    blockwise_sum.launch(device().stream(), {1}, x, y, 4);
    CHECK(doubles(y) == std::vector<double>{static_cast<double>(n)});
  }
}

TEST_CASE("an empty tensor sums to zero; an empty grid does nothing") {
  const auto x = tw::Tensor<float>::empty(device(), {0});
  const auto y = tensor<float>({1}, {-1});
  blockwise_sum.launch(device().stream(), {0}, x, y, 4);
  CHECK(doubles(y) == std::vector<double>{-1});
  blockwise_sum.launch(device().stream(), {1}, x, y, 4);
  CHECK(doubles(y) == std::vector<double>{0});
}

TEST_CASE("softmax of partial rows") {
  for (const int cols : {1, 5, 64, 100}) {
    const auto x = tw::random_normal<float>(device(), {7, cols}, 3);
    const auto y = tw::Tensor<float>::empty(device(), {7, cols});
    softmax.launch(device().stream(), {7}, x, y, tw::next_pow2(cols));
    CHECK(error(doubles(y), softmax_of(doubles(x), 7, cols)) < 1e-6);
  }
}

TEST_CASE("any layout on either side: transposed, reversed, every second, broadcast") {
  const auto x = tensor<float>({6, 10}, counting(60));
  const auto check = [](const tw::Tensor<float>& from, const tw::Tensor<float>& to) {
    const auto m = from.extent(0), n = from.extent(1);
    copy2.launch(device().stream(), {tw::cdiv(m, 4), tw::cdiv(n, 8)}, from, to, 4, 8);
    CHECK(doubles(to) == doubles(from));
  };
  check(x, tw::Tensor<float>::zeros(device(), {6, 10}));
  check(x.transpose(), tw::Tensor<float>::zeros(device(), {10, 6}));
  check(x.transpose(), tw::Tensor<float>::zeros(device(), {6, 10}).transpose());
  check(x.flip(1).flip(0), tw::Tensor<float>::zeros(device(), {6, 10}).flip(0));
  check(x.slice(1, 1, 9, 2), tw::Tensor<float>::zeros(device(), {6, 9}).slice(1, 0, 8, 2));
  check(x.slice(0, 2, 3).broadcast_to({5, 10}), tw::Tensor<float>::zeros(device(), {5, 10}));
}

TEST_CASE("a store outside the view writes nothing") {
  const auto big = tw::Tensor<float>::zeros(device(), {4, 8});
  const auto inner = big.slice(0, 1, 3).slice(1, 2, 5);
  const auto fill =
      tw::kernel("fill", [](Out2 y, tw::Scalar<int> row) { tw::store(y, {row - 4, -3}, tw::full<float>(7, 16, 16)); });
  fill.launch(device().stream(), {1}, inner, 0);
  std::vector<double> expected(32, 0);
  for (int r = 1; r < 3; ++r) {
    for (int c = 2; c < 5; ++c) expected[r * 8 + c] = 7;
  }
  CHECK(doubles(big) == expected);
}

TEST_CASE("branches, while loops and several Vars") {
  // Steps of the Collatz sequence, and its largest member.
  const auto collatz = tw::kernel("collatz", [](tw::View<const int, 1> x, tw::View<int, 2> y) {
    auto i = tw::program_id(0);
    tw::Var n = tw::sum(tw::load(x, {i}, {1}), 0);
    tw::Var steps = 0, top = n;
    tw::while_([&] { return n != 1; },
               [&] {
                 tw::if_((n & 1) == 0, [&] { n = n / 2; }).else_([&] { n = 3 * n + 1; });
                 top = tw::maximum(top, n);
                 steps += 1;
               });
    tw::store(y, {i, 0}, steps);
    tw::store(y, {i, 1}, top);
  });
  const auto x = tensor<int>({4}, {1, 6, 7, 27});
  const auto y = tw::Tensor<int>::zeros(device(), {4, 2});
  collatz.launch(device().stream(), {4}, x, y);
  CHECK(doubles(y) == std::vector<double>{0, 1, 8, 16, 16, 52, 111, 9232});
}

TEST_CASE("a range walks down, by steps, or not at all") {
  const auto walk =
      tw::kernel("walk", [](tw::View<int, 1> y, tw::Scalar<int> lo, tw::Scalar<int> hi, tw::Scalar<int> step) {
        tw::Var at = tw::Scalar<tw::index_t>(tw::scalar<tw::index_t>(0));
        for (auto i : tw::range(lo, hi, step)) {
          tw::store(y, {at}, i.to<int>());
          at += 1;
        }
      });
  const auto run = [&](int lo, int hi, int step) {
    const auto y = tensor<int>({4}, {-1, -1, -1, -1});
    walk.launch(device().stream(), {1}, y, lo, hi, step);
    return doubles(y);
  };
  CHECK(run(0, 7, 2) == std::vector<double>{0, 2, 4, 6});
  CHECK(run(5, 1, -2) == std::vector<double>{5, 3, -1, -1});
  CHECK(run(3, 3, 1) == std::vector<double>{-1, -1, -1, -1});
}

TEST_CASE("gather and scatter through pointers") {
  const auto reverse = tw::kernel("reverse", [](In x, Out y, tw::Const<int> block) {
    auto n = x.extent(0);
    auto i = tw::arange<tw::index_t>(block);
    auto v = tw::load(x.ptr() + (n - 1 - i), {.pad = 0, .mask = i < n});
    tw::store(y.ptr() + i, v, {.mask = i < n});
  });
  const auto x = tensor<float>({5}, {1, 2, 3, 4, 5});
  const auto y = tensor<float>({6}, {0, 0, 0, 0, 0, 9});
  reverse.launch(device().stream(), {1}, x, y, 8);
  CHECK(doubles(y) == std::vector<double>{5, 4, 3, 2, 1, 9});
}

TEST_CASE("reductions: over each axis, with NaN, ties and no valid lane") {
  const auto reduce = tw::kernel("reduce", [](In2 x, Out2 y) {
    auto v = tw::load(x, {0, 0}, {4, 8});
    tw::store(y, {0, 0}, tw::expand(tw::max(v, 0), 0));
    tw::store(y, {1, 0}, tw::expand(tw::argmax(v, 0).to<float>(), 0));
    tw::store(y, {2, 0}, tw::expand(tw::argmin(v, 1).to<float>(), 0));
    tw::store(y, {3, 0}, tw::expand(tw::prod(v, 1), 0));
    tw::store(y, {4, 0}, tw::expand(tw::max(tw::sum(v, 1), 0), 0));
    tw::store(y, {5, 0}, tw::expand(tw::any(v < 0, 0).to<float>(), 0));
    tw::store(y, {5, 4}, tw::expand(tw::nanmax(v, 0), 0));
  });
  const double nan = std::nan("");
  const auto x = tensor<float>({3, 3}, {-1, 5, -2, -1, nan, -3, -4, 5, -9});
  const auto y = tw::Tensor<float>::zeros(device(), {6, 8});
  reduce.launch(device().stream(), {1}, x, y);
  const auto got = doubles(y);
  const auto row = [&](int r, int n, int from = 0) {
    return std::vector<double>(got.begin() + r * 8 + from, got.begin() + r * 8 + from + n);
  };
  CHECK(error(row(0, 3), {-1, nan, -2}) == 0);
  CHECK(row(1, 3) == std::vector<double>{0, 1, 0});
  CHECK(row(2, 3) == std::vector<double>{2, 1, 2});
  CHECK(error(row(3, 3), {10, nan, 180}) == 0);
  CHECK(std::isnan(row(4, 1)[0]));
  CHECK(row(5, 3) == std::vector<double>{1, 0, 1});
  CHECK(row(5, 3, 4) == std::vector<double>{-1, 5, -2});
  // Only negative sums: the row past the edge must not count as zero.
  const auto negative = tensor<float>({3, 2}, {-1, -2, -3, -4, -5, -6});
  reduce.launch(device().stream(), {1}, negative, y);
  CHECK(doubles(y)[32] == -3);
}

TEST_CASE("in place, and over memory that overlaps") {
  const auto add = tw::kernel("add", [](In x, Out y) {
    auto i = tw::program_id(0) * 64;
    tw::store(y, {i}, tw::load(x, {i}, {64}) + 1);
  });
  const auto x = tensor<float>({100}, counting(100));
  add.launch(device().stream(), {2}, x, x);
  CHECK(doubles(x)[99] == 100);
  add.launch(device().stream(), {1}, x.slice(0, 0, 64), x.slice(0, 36, 100));
  CHECK(doubles(x)[99] == 65);
}

TEST_CASE("a kernel's parameters: aggregates, enums, bools, specialised scalars") {
  enum class Act { none, twice };
  struct Blocks {
    int n;
    bool negate;
    float add;
  };
  const auto k = tw::kernel("parameters", [](In x, Out y, tw::Const<Blocks> b, tw::Const<Act> act,
                                             tw::Specialized<int> n, tw::Scalar<double> scale) {
    auto v = tw::load(x, {0}, {b->n}) * scale.to<float>() + b->add;
    if (act == Act::twice && !b->negate) {
      tw::store(y, {0}, v * 2 * n.to<float>());
    } else {
      tw::store(y, {0}, -v * n.to<float>());
    }
  });
  const auto x = tensor<float>({4}, {1, 2, 3, 4}), y = tensor<float>({4}, {0, 0, 0, 0});
  k.launch(device().stream(), {1}, x, y, {.n = 4, .negate = false, .add = 0.5f}, Act::twice, 3, 2.0);
  CHECK(doubles(y) == std::vector<double>{15, 27, 39, 51});
  k.launch(device().stream(), {1}, x, y, {.n = 4, .negate = true, .add = 0.5f}, Act::twice, 1, 2);
  CHECK(doubles(y) == std::vector<double>{-2.5, -4.5, -6.5, -8.5});
  CHECK(k.variant_count() == 2);
}

TEST_CASE("many threads launch one kernel for the first time") {
  const auto k = tw::kernel("threads", [](In x, Out y, tw::Const<int> add) {
    tw::store(y, {0}, tw::load(x, {0}, {16}) + static_cast<float>(add));
  });
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto x = tensor<float>({16}, counting(16)), y = tw::Tensor<float>::empty(device(), {16});
      for (int i = 0; i < 20; ++i) {
        k.launch(device().stream(), {1}, x, y, i % 3);
        wrong[t] += doubles(y)[15] != 15 + i % 3;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4, 0));
  CHECK(k.variant_count() == 3);
}

TEST_CASE("more than 2^31 elements: offsets in 64 bits, edges exact") {
  const auto k =
      tw::kernel("far", [](tw::View<const std::uint8_t, 1> x, tw::View<int, 1> y, tw::Scalar<tw::index_t> at) {
        auto v = tw::load(x, {at}, {8}).to<int>();
        tw::store(y, {0}, tw::sum(v, 0));
        tw::store(y, {1}, tw::sum(tw::valid(v).to<int>(), 0));
      });
  const tw::index_t n = (tw::index_t{1} << 33) + 3;
  const auto x = tensor<std::uint8_t>({1}, {7}).broadcast_to({n}), y = tensor<std::uint8_t>({1}, {7});
  const auto out = tensor<int>({2}, {0, 0});
  for (const auto& [at, lanes] : {std::pair<tw::index_t, int>{0, 8}, {n - 5, 5}, {n, 0}, {-3, 5}, {n - 8, 8}}) {
    k.launch(device().stream(), {1}, x, out, at);
    CHECK(doubles(out) == std::vector<double>{7.0 * lanes, static_cast<double>(lanes)});
  }
  k.launch(device().stream(), {1}, y, out, 0);
  CHECK(doubles(out) == std::vector<double>{7, 1});
}

TEST_CASE("long long is i64") {
  const auto k = tw::kernel("long_long", [](tw::View<const long long, 1> x, tw::View<std::int64_t, 1> y) {
    tw::store(y, {0}, tw::load(x, {0}, {2}) + 1);
  });
  const auto x = tensor<long long>({2}, {1, 2});
  const auto y = tensor<std::int64_t>({2}, {0, 0});
  k.launch(device().stream(), {1}, x, y);
  CHECK(doubles(y) == std::vector<double>{2, 3});
}

TEST_CASE("pointer parameters take a tensor's address") {
  const auto gather = tw::kernel("gather", [](tw::Ptr<const float> x, tw::View<const int, 1> index, tw::Ptr<float> y) {
    auto at = tw::load(index, {0}, {4});
    tw::store(y + tw::arange(4), tw::load(x + at, {.mask = at >= 0}));
  });
  const auto x = tensor<float>({5}, {10, 11, 12, 13, 14});
  const auto y = tensor<float>({4}, {-1, -1, -1, -1});
  gather.launch(device().stream(), {1}, x, tensor<int>({3}, {4, -1, 2}), y);
  CHECK(doubles(y) == std::vector<double>{14, -1, 12, -1});  // the invalid lane and the masked one stay
}
