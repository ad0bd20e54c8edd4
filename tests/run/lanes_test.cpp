// Ops along the lanes of a tile against serial loops: scans and generic reductions, sort, topk, histogram.
// Odd extents, both axes, partial blocks, every special float. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "reference.h"

namespace {

template <class T>
using In2 = tw::View<const T, 2>;
template <class T>
using Out2 = tw::View<T, 2>;

// The lines of a row-major m x n matrix along an axis, as indices.
std::vector<std::vector<std::size_t>> lines_of(int m, int n, int axis) {
  std::vector<std::vector<std::size_t>> lines(axis == 0 ? n : m);
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) lines[axis == 0 ? c : r].push_back(static_cast<std::size_t>(r) * n + c);
  }
  return lines;
}

template <class T>
const auto cumulative = tw::kernel(
    "cumulative", [](In2<T> x, Out2<T> down, Out2<T> up, tw::Const<int> m, tw::Const<int> n, tw::Const<int> axis) {
      auto v = tw::load(x, {0, 0}, {m, n});
      tw::store(down, {0, 0}, tw::cumsum(v, axis));
      tw::store(up, {0, 0}, tw::cumsum(v, axis, tw::reverse));
    });

// Sums of a matrix that a block of bm x bn covers.
template <class T>
void check_cumsum(int m, int n, int bm, int bn, double tolerance) {
  std::vector<double> values;
  for (int i = 0; i < m * n; ++i) values.push_back((i * 7 + 3) % 11 - 5);
  const auto x = tensor<T>({m, n}, values), down = tw::Tensor<T>::zeros(device(), {m, n}),
             up = tw::Tensor<T>::zeros(device(), {m, n});
  for (const int axis : {0, 1}) {
    cumulative<T>.launch(device().stream(), {1}, x, down, up, bm, bn, axis);
    std::vector<double> expected(values.size()), backwards(values.size());
    for (const auto& line : lines_of(m, n, axis)) {
      double sum = 0;
      for (const std::size_t i : line) expected[i] = sum += values[i];
      sum = 0;
      for (auto i = line.rbegin(); i != line.rend(); ++i) backwards[*i] = sum += values[*i];
    }
    INFO(m << " x " << n << " in " << bm << " x " << bn << ", axis " << axis);
    CHECK(error(doubles(down), expected) <= tolerance);
    CHECK(error(doubles(up), backwards) <= tolerance);
  }
}

const auto affine =
    tw::kernel("affine", [](tw::View<const std::uint32_t, 1> a, tw::View<const std::uint32_t, 1> b,
                            tw::View<std::uint32_t, 2> out, tw::View<std::uint32_t, 2> total, tw::Const<int> n) {
      // x -> s.a x + s.b, then x -> t.a x + t.b.
      const auto compose = [](const auto& s, const auto& t) {
        const auto& [sa, sb] = s;
        const auto& [ta, tb] = t;
        return std::tuple(ta * sa, ta * sb + tb);
      };
      const std::tuple maps(tw::load(a, {0}, {n}), tw::load(b, {0}, {n}));
      const auto [pa, pb] = tw::scan(maps, 0, compose);
      const auto [qa, qb] = tw::scan(maps, 0, compose, tw::reverse);
      const auto [ta, tb] = tw::reduce(maps, 0, compose);
      tw::store(out, {0, 0}, pa);
      tw::store(out, {1, 0}, pb);
      tw::store(out, {2, 0}, qa);
      tw::store(out, {3, 0}, qb);
      tw::store(total, {0, 0}, ta);
      tw::store(total, {0, 1}, tb);
    });

void check_affine(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b, int block) {
  const auto n = static_cast<tw::index_t>(a.size());
  const auto out = tw::Tensor<std::uint32_t>::zeros(device(), {4, n}),
             total = tw::Tensor<std::uint32_t>::zeros(device(), {1, 2});
  affine.launch(device().stream(), {1}, tw::Tensor<std::uint32_t>::from_host(device(), {n}, a),
                tw::Tensor<std::uint32_t>::from_host(device(), {n}, b), out, total, block);
  std::vector<std::uint32_t> expected(4 * a.size());
  std::uint32_t pa = 1, pb = 0, qa = 1, qb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    pb = a[i] * pb + b[i];
    pa *= a[i];
    expected[i] = pa;
    expected[a.size() + i] = pb;
    const std::size_t k = a.size() - 1 - i;
    qb = a[k] * qb + b[k];
    qa *= a[k];
    expected[2 * a.size() + k] = qa;
    expected[3 * a.size() + k] = qb;
  }
  INFO(n << " in a block of " << block);
  CHECK(out.to_host() == expected);
  CHECK(total.to_host() == std::vector<std::uint32_t>{pa, pb});
}

// --- sort

template <class T>
const auto sorts =
    tw::kernel("sorts", [](In2<T> x, Out2<T> up, Out2<T> down, tw::View<int, 2> from, tw::View<int, 2> back,
                           tw::Const<int> m, tw::Const<int> n, tw::Const<int> axis) {
      auto v = tw::load(x, {0, 0}, {m, n});
      tw::store(up, {0, 0}, tw::sort(v, axis));
      tw::store(down, {0, 0}, tw::sort(v, axis, tw::descending));
      tw::store(from, {0, 0}, tw::argsort(v, axis));
      tw::store(back, {0, 0}, tw::argsort(v, axis, tw::descending));
    });

// -0 before +0, NaN last.
bool comes_before(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

template <class T>
void check_sort(const std::vector<double>& given, int m, int n, int bm, int bn) {
  const auto x = tensor<T>({m, n}, given);
  const auto values = doubles(x);
  const auto up = tw::Tensor<T>::zeros(device(), {m, n}), down = tw::Tensor<T>::zeros(device(), {m, n});
  const auto from = tw::Tensor<int>::zeros(device(), {m, n}), back = tw::Tensor<int>::zeros(device(), {m, n});
  for (const int axis : {0, 1}) {
    sorts<T>.launch(device().stream(), {1}, x, up, down, from, back, bm, bn, axis);
    const auto gu = doubles(up), gd = doubles(down);
    const auto gf = from.to_host(), gb = back.to_host();
    bool right = true;
    for (const auto& line : lines_of(m, n, axis)) {
      std::vector<int> order(line.size()), reversed;
      std::iota(order.begin(), order.end(), 0);
      reversed = order;
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return comes_before(values[line[a]], values[line[b]]); });
      std::stable_sort(reversed.begin(), reversed.end(),
                       [&](int a, int b) { return comes_before(values[line[b]], values[line[a]]); });
      for (std::size_t k = 0; k < line.size(); ++k) {
        right = right && same(gu[line[k]], values[line[order[k]]]) && same(gd[line[k]], values[line[reversed[k]]]) &&
                gf[line[k]] == order[k] && gb[line[k]] == reversed[k];
      }
    }
    INFO(m << " x " << n << " in " << bm << " x " << bn << ", axis " << axis);
    CHECK(right);
  }
}

std::vector<double> shuffled(std::size_t n) {
  std::vector<double> v(n);
  std::uint64_t s = 12345;
  for (double& x : v) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<double>(static_cast<std::int64_t>(s >> 33) % 50) - 25;
  }
  return v;
}

const auto topk = tw::kernel(
    "topk", [](In2<float> x, Out2<float> values, tw::View<int, 2> indices, tw::Const<int> n, tw::Const<int> k) {
      auto row = tw::program_id(0);
      const auto best = tw::topk(tw::load(x, {row, 0}, {1, n}), k, 1);
      tw::store(values, {row, 0}, best.values);
      tw::store(indices, {row, 0}, best.indices);
    });

template <class T>
const auto counts =
    tw::kernel("counts", [](tw::View<const T, 1> x, tw::View<int, 1> out, tw::Const<int> block, tw::Const<int> bins) {
      tw::store(out, {0}, tw::histogram(tw::load(x, {0}, {block}), bins));
    });

}  // namespace

TEST_CASE("cumulative sums along both axes, whole and partial blocks") {
  check_cumsum<int>(4, 8, 4, 8, 0);
  check_cumsum<int>(5, 30, 8, 32, 0);
  check_cumsum<int>(7, 13, 7, 13, 0);
  check_cumsum<int>(1, 1000, 1, 1024, 0);
  check_cumsum<int>(300, 3, 300, 3, 0);
  check_cumsum<std::int64_t>(3, 65, 3, 65, 0);
  check_cumsum<std::int8_t>(2, 17, 2, 17, 0);
  check_cumsum<float>(3, 100, 4, 128, 0);  // small whole numbers: every order is exact
  check_cumsum<double>(6, 10, 6, 10, 0);
  check_cumsum<tw::f16>(4, 50, 4, 50, rounding<tw::f16>());
  check_cumsum<tw::bf16>(4, 50, 4, 50, rounding<tw::bf16>());
}

TEST_CASE("f16 sums run in f32: 4096 ones reach 4096") {
  const auto x = tensor<tw::f16>({1, 4096}, std::vector<double>(4096, 1)),
             down = tw::Tensor<tw::f16>::zeros(device(), {1, 4096}),
             up = tw::Tensor<tw::f16>::zeros(device(), {1, 4096});
  cumulative<tw::f16>.launch(device().stream(), {1}, x, down, up, 1, 4096, 1);
  CHECK(doubles(down).back() == 4096);
  CHECK(doubles(up).front() == 4096);
}

TEST_CASE("scans and reductions of maps that do not commute") {
  check_affine({2, 3, 5, 7}, {1, 1, 1, 1}, 4);
  for (const int n : {1, 2, 3, 8, 31, 33, 100, 257, 1000}) {
    std::vector<std::uint32_t> a, b;
    for (int i = 0; i < n; ++i) {
      a.push_back(2654435761u * static_cast<std::uint32_t>(i + 1) | 1u);
      b.push_back(40503u * static_cast<std::uint32_t>(i + 7));
    }
    check_affine(a, b, n);
    check_affine(a, b, n + 5);
  }
}

TEST_CASE("the known values of reverse and forward scans") {
  const auto a = tw::Tensor<std::uint32_t>::from_host(device(), {4}, std::vector<std::uint32_t>{2, 3, 5, 7});
  const auto b = tw::Tensor<std::uint32_t>::from_host(device(), {4}, std::vector<std::uint32_t>{1, 1, 1, 1});
  const auto out = tw::Tensor<std::uint32_t>::zeros(device(), {4, 4}),
             total = tw::Tensor<std::uint32_t>::zeros(device(), {1, 2});
  affine.launch(device().stream(), {1}, a, b, out, total, 4);
  CHECK(out.to_host() == std::vector<std::uint32_t>{2, 6, 30, 210, 1, 4, 21, 148, 210, 105, 35, 7, 39, 19, 6, 1});
}

TEST_CASE("a scan in a loop, with a scalar from outside; cummax, cumprod, a reduction with several values") {
  const auto k = tw::kernel("looped", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::View<float, 1> best,
                                         tw::View<int, 1> at, tw::Scalar<float> decay) {
    for (auto row : tw::range(0, x.extent(0))) {
      auto v = tw::load(x, {row, 0}, {1, 16});
      // The weight of what came before decays by the same factor from lane to lane.
      const auto weighted = [&](const auto& s, const auto& t) {
        const auto& [sw, sv] = s;
        const auto& [tw_, tv] = t;
        return std::tuple(sw * tw_, sv * tw_ + tv);
      };
      const auto [w, sum] = tw::scan(std::tuple(tw::full_like(v, decay), v), 1, weighted);
      tw::store(y, {row, 0}, sum);
      const auto larger = [](const auto& s, const auto& t) {
        const auto& [sv, si] = s;
        const auto& [tv, ti] = t;
        auto first = (sv > tv) | ((sv == tv) & (si < ti));
        return std::tuple(tw::where(first, sv, tv), tw::where(first, si, ti));
      };
      const auto index = tw::expand(tw::arange(16), 0);
      const auto [top, lane] = tw::reduce(std::tuple(v, index), 1, larger);
      tw::store(best, {row}, top);
      tw::store(at, {row}, lane);
    }
  });
  const std::vector<double> values = shuffled(5 * 16);
  const auto x = tensor<float>({5, 16}, values), y = tw::Tensor<float>::zeros(device(), {5, 16});
  const auto best = tw::Tensor<float>::zeros(device(), {5});
  const auto at = tw::Tensor<int>::zeros(device(), {5});
  k.launch(device().stream(), {1}, x, y, best, at, 0.5f);
  std::vector<double> expected, tops;
  std::vector<int> lanes;
  for (int r = 0; r < 5; ++r) {
    double sum = 0;
    int top = 0;
    for (int c = 0; c < 16; ++c) {
      sum = c == 0 ? values[r * 16] : sum * 0.5 + values[r * 16 + c];
      expected.push_back(sum);
      if (values[r * 16 + c] > values[r * 16 + top]) top = c;
    }
    tops.push_back(values[r * 16 + top]);
    lanes.push_back(top);
  }
  CHECK(error(doubles(y), expected) < 1e-6);
  CHECK(doubles(best) == tops);
  CHECK(at.to_host() == lanes);
}

TEST_CASE("running extrema and products; NaN stays from where it stands") {
  const auto k = tw::kernel("running", [](tw::View<const float, 1> x, tw::View<float, 2> y) {
    auto v = tw::load(x, {0}, {8});
    tw::store(y, {0, 0}, tw::cummax(v, 0));
    tw::store(y, {1, 0}, tw::cummin(v, 0));
    tw::store(y, {2, 0}, tw::cumprod(v, 0));
    tw::store(y, {3, 0}, tw::cummax(v, -1, tw::reverse));
  });
  const double nan = std::nan("");
  const auto x = tensor<float>({8}, {1, -2, 3, nan, 4, 0.5, -1, 2}), y = tw::Tensor<float>::zeros(device(), {4, 8});
  k.launch(device().stream(), {1}, x, y);
  CHECK(error(doubles(y), {1, 1,  3,  nan, nan, nan, nan, nan, 1,   -2,  -2,  nan, nan, nan, nan, nan,
                           1, -2, -6, nan, nan, nan, nan, nan, nan, nan, nan, nan, 4,   2,   2,   2}) == 0);
}

TEST_CASE("bits combined along an axis") {
  const auto k = tw::kernel("bits", [](tw::View<const std::uint32_t, 2> x, tw::View<std::uint32_t, 2> y) {
    auto v = tw::load(x, {0, 0}, {4, 3});
    tw::store(y, {0, 0}, tw::xor_sum(v, 1));
    tw::store(y, {1, 0}, tw::or_sum(v, 1));
    tw::store(y, {2, 0}, tw::and_sum(v, 1));
  });
  const auto x = tensor<std::uint32_t>({4, 3}, {1, 2, 4, 7, 7, 7, 12, 10, 6, 0, 0, 9});
  const auto y = tw::Tensor<std::uint32_t>::zeros(device(), {3, 4});
  k.launch(device().stream(), {1}, x, y);
  CHECK(y.to_host() == std::vector<std::uint32_t>{7, 7, 0, 9, 7, 7, 14, 9, 0, 7, 0, 0});
}

TEST_CASE("sort and argsort along both axes: stable, whole and partial blocks") {
  check_sort<float>(shuffled(4 * 8), 4, 8, 4, 8);
  check_sort<float>(shuffled(5 * 30), 5, 30, 8, 32);
  check_sort<int>(shuffled(7 * 13), 7, 13, 7, 13);
  check_sort<std::int64_t>(shuffled(3 * 70), 3, 70, 3, 70);
  check_sort<double>(shuffled(3 * 20), 3, 20, 4, 20);
  check_sort<std::int8_t>(shuffled(2 * 33), 2, 33, 2, 33);
  check_sort<tw::f16>(shuffled(3 * 17), 3, 17, 3, 17);
  check_sort<int>(shuffled(300), 1, 300, 1, 300);
  check_sort<int>(shuffled(1), 1, 1, 1, 1);
}

TEST_CASE("sort orders -0, +0, infinities and NaN") {
  const double nan = std::nan(""), inf = HUGE_VAL;
  check_sort<float>({0.0, -0.0, nan, 1, -inf, inf, 1e-45, -1e-45, nan, -1, 0.0, -0.0, 3e38, -3e38, 2, 2}, 2, 8, 2, 8);
  check_sort<double>({0.0, -0.0, nan, 1, -inf, inf, 5e-324, -5e-324}, 1, 8, 1, 8);
  check_sort<tw::bf16>({0.0, -0.0, nan, 1, -inf, inf, 1e-40, -1e-40}, 1, 8, 1, 8);
}

TEST_CASE("topk: largest first, lowest index of equal ones, partial rows, any k") {
  const std::vector<double> values = shuffled(3 * 20);
  const auto x = tensor<float>({3, 20}, values);
  for (const int k : {1, 3, 5, 20}) {
    const auto best = tw::Tensor<float>::zeros(device(), {3, k});
    const auto at = tw::Tensor<int>::zeros(device(), {3, k});
    topk.launch(device().stream(), {3}, x, best, at, 32, k);
    std::vector<double> expected;
    std::vector<int> lanes;
    for (int r = 0; r < 3; ++r) {
      std::vector<int> order(20);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return values[r * 20 + a] > values[r * 20 + b]; });
      for (int i = 0; i < k; ++i) {
        expected.push_back(values[r * 20 + order[i]]);
        lanes.push_back(order[i]);
      }
    }
    CHECK(doubles(best) == expected);
    CHECK(at.to_host() == lanes);
  }
}

TEST_CASE("values sorted by keys") {
  const auto k = tw::kernel(
      "by_key", [](tw::View<const int, 1> keys, tw::View<const float, 1> x, tw::View<int, 1> a, tw::View<float, 1> b) {
        const auto [sorted, values] = tw::sort_by(tw::load(keys, {0}, {8}), 0, tw::load(x, {0}, {8}));
        tw::store(a, {0}, sorted);
        tw::store(b, {0}, values);
      });
  const auto keys = tensor<int>({8}, {3, 1, 2, 1, 0, 3, 2, 0}), a = tw::Tensor<int>::zeros(device(), {8});
  const auto x = tensor<float>({8}, counting(8)), b = tw::Tensor<float>::zeros(device(), {8});
  k.launch(device().stream(), {1}, keys, x, a, b);
  CHECK(a.to_host() == std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(doubles(b) == std::vector<double>{4, 7, 1, 3, 2, 6, 0, 5});
}

TEST_CASE("histogram: what is out of range or masked off is not counted") {
  const auto run = [](auto tag, const std::vector<double>& values, int block, int bins) {
    using T = decltype(tag);
    const auto out = tw::Tensor<int>::zeros(device(), {bins});
    counts<T>.launch(device().stream(), {1}, tensor<T>({static_cast<tw::index_t>(values.size())}, values), out, block,
                     bins);
    return out.to_host();
  };
  CHECK(run(int{}, {0, 1, 1, 3, -1, 4, 3, 1000000}, 8, 4) == std::vector<int>{1, 2, 0, 2});
  CHECK(run(std::uint8_t{}, {255, 255, 0, 7}, 16, 256)[255] == 2);
  CHECK(run(std::int8_t{}, {-128, 127, 0, 0}, 4, 128)[127] == 1);
  std::vector<double> many;
  std::vector<int> expected(10, 0);
  for (int i = 0; i < 1000; ++i) {
    many.push_back((i * i + i / 7) % 10);
    ++expected[(i * i + i / 7) % 10];
  }
  CHECK(run(std::int64_t{}, many, 1024, 10) == expected);
}
