// Ops that move elements, against index loops: slice, cat, flip, gather, join, split, interleave; views by tiles of
// indices; cache hints; products of batches. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include "reference.h"

namespace {

using In2 = tw::View<const float, 2>;
using Out2 = tw::View<float, 2>;

const auto cut = tw::kernel("cut", [](In2 x, Out2 y, tw::Const<int> m, tw::Const<int> n, tw::Const<int> r0,
                                      tw::Const<int> c0, tw::Const<int> rows, tw::Const<int> cols) {
  tw::store(y, {0, 0}, tw::slice(tw::load(x, {0, 0}, {m, n}), {r0, c0}, {rows, cols}));
});

const auto glue = tw::kernel("glue", [](In2 x, In2 y, Out2 z, tw::Const<int> m, tw::Const<int> n, tw::Const<int> p,
                                        tw::Const<int> q, tw::Const<int> axis) {
  tw::store(z, {0, 0}, tw::cat(tw::load(x, {0, 0}, {m, n}), tw::load(y, {0, 0}, {p, q}), axis));
});

const auto mirror = tw::kernel("mirror", [](In2 x, Out2 y, tw::Const<int> m, tw::Const<int> n, tw::Const<int> axis) {
  tw::store(y, {0, 0}, tw::flip(tw::load(x, {0, 0}, {m, n}), axis));
});

template <class I>
const auto pick = tw::kernel("pick", [](In2 x, tw::View<const I, 2> index, Out2 y, tw::Const<int> m, tw::Const<int> n,
                                        tw::Const<int> p, tw::Const<int> q, tw::Const<int> axis) {
  tw::store(y, {0, 0}, tw::gather(tw::load(x, {0, 0}, {m, n}), tw::load(index, {0, 0}, {p, q}), axis));
});

tw::Tensor<float> numbers(int m, int n) { return tensor<float>({m, n}, counting(static_cast<std::size_t>(m) * n)); }

}  // namespace

TEST_CASE("slices of any place and extent") {
  const int cases[][6] = {{4, 8, 0, 0, 4, 8},  {4, 8, 1, 2, 2, 3},       {8, 64, 4, 32, 4, 32}, {8, 64, 0, 0, 8, 32},
                          {6, 10, 3, 5, 3, 5}, {16, 128, 0, 96, 16, 32}, {5, 7, 4, 6, 1, 1},    {33, 3, 32, 0, 1, 3}};
  for (const auto& s : cases) {
    const auto x = numbers(s[0], s[1]), y = tw::Tensor<float>::zeros(device(), {s[4], s[5]});
    cut.launch(device().stream(), {1}, x, y, s[0], s[1], s[2], s[3], s[4], s[5]);
    CHECK(doubles(y) == doubles(x.slice(0, s[2], s[2] + s[4]).slice(1, s[3], s[3] + s[5]).contiguous()));
  }
}

TEST_CASE("cat along both axes, equal and unequal") {
  const int cases[][5] = {{4, 8, 4, 8, 0}, {4, 8, 4, 8, 1},     {3, 5, 2, 5, 0},
                          {3, 5, 3, 9, 1}, {64, 64, 64, 64, 0}, {1, 1, 1, 1, 1}};
  for (const auto& s : cases) {
    const int m = s[4] == 0 ? s[0] + s[2] : s[0], n = s[4] == 1 ? s[1] + s[3] : s[1];
    const auto x = numbers(s[0], s[1]), y = numbers(s[2], s[3]), z = tw::Tensor<float>::zeros(device(), {m, n});
    glue.launch(device().stream(), {1}, x, y, z, s[0], s[1], s[2], s[3], s[4]);
    std::vector<double> expected;
    for (int r = 0; r < m; ++r) {
      for (int c = 0; c < n; ++c) {
        const bool second = s[4] == 0 ? r >= s[0] : c >= s[1];
        const int rr = second && s[4] == 0 ? r - s[0] : r, cc = second && s[4] == 1 ? c - s[1] : c;
        expected.push_back(rr * (second ? s[3] : s[1]) + cc);
      }
    }
    CHECK(doubles(z) == expected);
  }
}

TEST_CASE("cat keeps what is valid on either side") {
  const auto k = tw::kernel("cat_edges", [](In2 x, Out2 y, tw::View<float, 1> total) {
    auto left = tw::load(x, {0, 0}, {2, 8});  // six of eight columns
    auto right = tw::zeros<float>(2, 8) + 1;  // all
    auto both = tw::cat(left, right, 1);
    tw::store(y, {0, 0}, both);
    tw::store(total, {0}, tw::sum(both, 1));
  });
  const auto x = tensor<float>({2, 6}, std::vector<double>(12, 2)),
             y = tensor<float>({2, 16}, std::vector<double>(32, -1));
  const auto total = tw::Tensor<float>::zeros(device(), {2});
  k.launch(device().stream(), {1}, x, y, total);
  std::vector<double> row{2, 2, 2, 2, 2, 2, -1, -1, 1, 1, 1, 1, 1, 1, 1, 1}, expected = row;
  expected.insert(expected.end(), row.begin(), row.end());
  CHECK(doubles(y) == expected);
  CHECK(doubles(total) == std::vector<double>{20, 20});
}

TEST_CASE("flip of both axes") {
  const int cases[][2] = {{4, 8}, {3, 5}, {1, 256}, {64, 2}, {33, 65}};
  for (const auto& s : cases) {
    for (const int axis : {0, 1}) {
      const auto x = numbers(s[0], s[1]), y = tw::Tensor<float>::zeros(device(), {s[0], s[1]});
      mirror.launch(device().stream(), {1}, x, y, s[0], s[1], axis);
      CHECK(doubles(y) == doubles(x.flip(axis).contiguous()));
    }
  }
}

TEST_CASE("gather along both axes; indices outside give 0") {
  const auto check = [](auto tag, int m, int n, int p, int q, int axis, const std::vector<double>& index) {
    using I = decltype(tag);
    const auto x = numbers(m, n), y = tw::Tensor<float>::zeros(device(), {p, q});
    pick<I>.launch(device().stream(), {1}, x, tensor<I>({p, q}, index), y, m, n, p, q, axis);
    std::vector<double> expected;
    for (int r = 0; r < p; ++r) {
      for (int c = 0; c < q; ++c) {
        const double i = index[r * q + c];
        const bool inside = i >= 0 && i < (axis == 0 ? m : n);
        expected.push_back(!inside ? 0 : axis == 0 ? i * n + c : r * n + i);
      }
    }
    CHECK(doubles(y) == expected);
  };
  check(int{}, 3, 5, 3, 4, 1, {0, 4, 2, 2, 1, 1, 3, 0, 4, 4, 4, 4});
  check(std::int64_t{}, 3, 5, 2, 5, 0, {0, 1, 2, 0, 1, 2, 2, 2, 2, 2});
  check(int{}, 2, 3, 2, 3, 1, {-1, 3, 1000000, -2000000000, 2, 0});
  check(std::uint8_t{}, 1, 200, 1, 4, 1, {199, 200, 128, 255});
  std::vector<double> reversed;
  for (int i = 0; i < 256; ++i) reversed.push_back(255 - i);
  check(std::uint8_t{}, 1, 256, 1, 256, 1, reversed);
}

TEST_CASE("join, split and interleave; squeeze; ranks up to five") {
  const auto k = tw::kernel(
      "pairs", [](tw::View<const float, 1> x, tw::View<const float, 1> y, Out2 out, tw::View<float, 5> five) {
        auto a = tw::load(x, {0}, {6}), b = tw::load(y, {0}, {6});
        auto both = tw::join(a, b);  // 6 x 2
        auto [left, right] = tw::split(both);
        tw::store(out, {0, 0}, left + right * 100);
        tw::store(out, {1, 0}, tw::squeeze(tw::slice(both, {0, 1}, {6, 1}), 1));
        auto mixed = tw::interleave(a, b);  // 12
        tw::store(out, {2, 0}, mixed);
        tw::store(five, {0, 0, 0, 0, 0}, tw::reshape(mixed, {1, 2, 1, 3, 2}));
      });
  const auto x = tensor<float>({6}, {1, 2, 3, 4, 5, 6}), y = tensor<float>({6}, {10, 20, 30, 40, 50, 60});
  const auto out = tw::Tensor<float>::zeros(device(), {3, 12}),
             five = tw::Tensor<float>::zeros(device(), {1, 2, 1, 3, 2});
  k.launch(device().stream(), {1}, x, y, out, five);
  const std::vector<double> mixed{1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60};
  std::vector<double> expected{1001, 2002, 3003, 4004, 5005, 6006, 0, 0, 0, 0, 0, 0,
                               10,   20,   30,   40,   50,   60,   0, 0, 0, 0, 0, 0};
  expected.insert(expected.end(), mixed.begin(), mixed.end());
  CHECK(doubles(out) == expected);
  CHECK(doubles(five) == mixed);
}

TEST_CASE("tiles of every rank through scan, sort, flip, slice and cat") {
  const auto k = tw::kernel("ranks", [](tw::View<const int, 5> x, tw::View<int, 5> y) {
    auto v = tw::load(x, {0, 0, 0, 0, 0}, {2, 3, 2, 3, 4});
    auto turned = tw::flip(tw::cumsum(v, 1), 3);
    auto sorted = tw::sort(turned, 2, tw::descending);
    auto parts = tw::cat(tw::slice(sorted, {0, 1, 0, 0, 0}, {2, 2, 2, 3, 4}),
                         tw::slice(sorted, {0, 0, 0, 0, 0}, {2, 1, 2, 3, 4}), 1);
    tw::store(y, {0, 0, 0, 0, 0}, parts);
  });
  const auto x = tensor<int>({2, 3, 2, 3, 4}, counting(144)), y = tw::Tensor<int>::zeros(device(), {2, 3, 2, 3, 4});
  k.launch(device().stream(), {1}, x, y);
  std::vector<int> expected(144);
  const auto at = [](int a, int b, int c, int d, int e) { return (((a * 3 + b) * 2 + c) * 3 + d) * 4 + e; };
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 3; ++b) {
      for (int c = 0; c < 2; ++c) {
        for (int d = 0; d < 3; ++d) {
          for (int e = 0; e < 4; ++e) {
            const int source = (b + 1) % 3;  // cat of the planes 1, 2 and 0
            int sum = 0;
            for (int p = 0; p <= source; ++p)
              sum += at(a, p, 1 - c, 2 - d, e);  // flipped along 3; along 2 ascending before
            expected[at(a, b, c, d, e)] = sum;
          }
        }
      }
    }
  }
  CHECK(y.to_host() == expected);
}

TEST_CASE("elements of a view by tiles of indices, both ways") {
  const auto k = tw::kernel("indexed", [](In2 x, tw::View<const std::int64_t, 1> rows, Out2 y, Out2 back) {
    auto row = tw::expand(tw::load(rows, {0}, {4}), 1);  // 4 x 1
    auto columns = tw::arange(6);
    auto v = tw::load_at(x, std::tuple(row, columns));
    tw::store(y, {0, 0}, v);
    tw::store_at(back, std::tuple(row, columns), v + 1);
  });
  const auto x = numbers(5, 5);
  const auto rows = tensor<std::int64_t>({4}, {3, 0, -1, 7});
  const auto y = tensor<float>({4, 6}, std::vector<double>(24, -1)), back = tw::Tensor<float>::zeros(device(), {5, 5});
  k.launch(device().stream(), {1}, x, rows, y, back);
  std::vector<double> expected(24, -1), written(25, 0);
  for (int c = 0; c < 5; ++c) {
    expected[c] = 15 + c;
    expected[6 + c] = c;
    written[15 + c] = 16 + c;
    written[c] = 1 + c;
  }
  CHECK(doubles(y) == expected);
  CHECK(doubles(back) == written);
}

TEST_CASE("cache hints change no value") {
  const auto k = tw::kernel("hinted", [](In2 x, Out2 y, tw::Const<tw::Cache> load, tw::Const<tw::Cache> store) {
    auto v = tw::load(x, {0, 0}, {8, 64}, {.pad = 3, .cache = load});
    tw::store(y, {0, 0}, v + 1, {.cache = store});
    auto p = y.ptr() + tw::arange(4);
    tw::store(p, tw::load(p, {.cache = load}) * 2, {.cache = store});
  });
  for (const auto hint : {tw::Cache::automatic, tw::Cache::streaming, tw::Cache::no_allocate, tw::Cache::keep}) {
    const auto x = numbers(8, 60), y = tw::Tensor<float>::zeros(device(), {8, 64});
    k.launch(device().stream(), {1}, x, y, hint, hint);
    std::vector<double> expected;
    for (int r = 0; r < 8; ++r) {
      for (int c = 0; c < 64; ++c) expected.push_back((c < 60 ? r * 60 + c : 3) + 1);
    }
    for (int c = 0; c < 4; ++c) expected[c] *= 2;
    CHECK(doubles(y) == expected);
  }
}

TEST_CASE("products of batches: three and four axes, f16 and i8") {
  const auto k =
      tw::kernel("batches", [](tw::View<const float, 3> a, tw::View<const float, 3> b, tw::View<float, 3> c) {
        tw::store(c, {0, 0, 0}, tw::dot(tw::load(a, {0, 0, 0}, {3, 5, 7}), tw::load(b, {0, 0, 0}, {3, 7, 6})));
      });
  const auto a = tensor<float>({3, 5, 7}, counting(105)), b = tensor<float>({3, 7, 6}, counting(126));
  const auto c = tw::Tensor<float>::zeros(device(), {3, 5, 6});
  k.launch(device().stream(), {1}, a, b, c);
  std::vector<double> expected;
  for (int i = 0; i < 3; ++i) {
    for (int m = 0; m < 5; ++m) {
      for (int n = 0; n < 6; ++n) {
        double s = 0;
        for (int l = 0; l < 7; ++l) s += (i * 35 + m * 7 + l) * (i * 42 + l * 6 + n);
        expected.push_back(s);
      }
    }
  }
  CHECK(doubles(c) == expected);
  const auto four = tw::kernel("four", [](tw::View<const std::int8_t, 4> x, tw::View<int, 4> y) {
    auto v = tw::load(x, {0, 0, 0, 0}, {2, 2, 4, 4});
    tw::store(y, {0, 0, 0, 0}, tw::dot(v, tw::trans(v)));
  });
  const auto x = tensor<std::int8_t>({2, 2, 4, 4}, counting(64));
  const auto y = tw::Tensor<int>::zeros(device(), {2, 2, 4, 4});
  four.launch(device().stream(), {1}, x, y);
  std::vector<int> products;
  for (int i = 0; i < 4; ++i) {
    for (int m = 0; m < 4; ++m) {
      for (int n = 0; n < 4; ++n) {
        int s = 0;
        for (int l = 0; l < 4; ++l) s += (i * 16 + m * 4 + l) * (i * 16 + n * 4 + l);
        products.push_back(s);
      }
    }
  }
  CHECK(y.to_host() == products);
}
