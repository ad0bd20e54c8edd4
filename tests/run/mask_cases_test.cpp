// Cases from the field on masks, shapes, order and aliasing: partial rows, tails beside canaries, run-to-run bits, odd
// strides, alignment of the base, in-place use. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <cstring>

#include "reference.h"

namespace {

using In = tw::View<const float, 1>;
using Out = tw::View<float, 1>;
using In2 = tw::View<const float, 2>;
using Out2 = tw::View<float, 2>;

bool on_host() { return device().kind() != tw::DeviceKind::cuda; }

const auto add_one = tw::kernel("add_one", [](In2 x, Out2 y, tw::Const<int> m, tw::Const<int> n) {
  auto i = tw::program_id(0) * m, j = tw::program_id(1) * n;
  tw::store(y, {i, j}, tw::load(x, {i, j}, {m, n}) + 1);
});

void check_add_one(const tw::Tensor<float>& x) {
  const auto y = tw::Tensor<float>::zeros(device(), {x.extent(0), x.extent(1)});
  add_one.launch(device().stream(), {tw::cdiv(x.extent(0), 4), tw::cdiv(x.extent(1), 16)}, x, y, 4, 16);
  std::vector<double> expected = doubles(x);
  for (double& v : expected) ++v;
  CHECK(doubles(y) == expected);
}

// Floats with canaries of 64 bytes on both sides, at any byte offset that keeps an element aligned.
template <class T>
class Guarded {
 public:
  Guarded(std::size_t count, std::size_t shift)
      : count_(count), shift_(shift), bytes_(64 + shift + count * sizeof(T) + 64, 0xAB) {}
  T* data() { return reinterpret_cast<T*>(bytes_.data() + 64 + shift_); }
  bool intact() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= 64 + shift_ && i < 64 + shift_ + count_ * sizeof(T);
      if (!inside && bytes_[i] != 0xAB) return false;
    }
    return true;
  }

 private:
  std::size_t count_, shift_;
  std::vector<unsigned char> bytes_;
};

}  // namespace

TEST_CASE("case 25: lanes past the row take no part in reductions") {
  const auto k = tw::kernel("partial_row", [](In x, Out y, tw::View<int, 1> at, Out soft) {
    auto v = tw::load(x, {0}, {32});
    tw::store(y, {0}, tw::max(v, 0));
    tw::store(y, {1}, tw::sum(v, 0));
    tw::store(y, {2}, tw::prod(v / 5.0f, 0));
    tw::store(y, {3}, tw::min(v, 0));
    tw::store(at, {0}, tw::argmax(v, 0));
    tw::store(at, {1}, tw::argmin(v, 0));
    auto e = tw::exp(v - tw::max(v, 0));
    tw::store(soft, {0}, e / tw::sum(e, 0));
  });
  // The memory behind the row is NaN.
  std::vector<double> row(64, std::nan(""));
  for (int i = 0; i < 20; ++i) row[i] = -5;
  const auto memory = tensor<float>({64}, row), y = tw::Tensor<float>::zeros(device(), {4});
  const auto soft = tw::Tensor<float>::zeros(device(), {20});
  const auto at = tensor<int>({2}, {-1, -1});
  k.launch(device().stream(), {1}, memory.slice(0, 0, 20), y, at, soft);
  CHECK(doubles(y) == std::vector<double>{-5, -100, 1, -5});
  CHECK(at.to_host() == std::vector<int>{0, 0});
  CHECK(error(doubles(soft), std::vector<double>(20, 1.0 / 20)) < 1e-7);
}

TEST_CASE("case 26: tails of element-wise ops and rows, canaries intact" * doctest::skip(!on_host())) {
  const auto rows = tw::kernel("row_sums", [](In2 x, Out y, tw::Const<int> n) {
    auto row = tw::program_id(0);
    tw::Var acc = tw::zeros<float>(1, n);
    for (auto k : tw::range(0, x.extent(1), n)) acc += tw::load(x, {row, k}, {1, n});
    tw::store(y, {row}, tw::sum(acc, 1));
  });
  for (const tw::index_t m : {1, 31, 33, 60, 104, 127, 129}) {
    const tw::index_t n = 130 - m;
    Guarded<float> a(m * n, 0), b(m * n, 0), s(m, 0);
    for (tw::index_t i = 0; i < m * n; ++i) a.data()[i] = static_cast<float>(i % 17);
    const auto x = tw::wrap<float>(a.data(), {m, n}, {n, 1}, device()),
               y = tw::wrap<float>(b.data(), {m, n}, {n, 1}, device());
    const auto sums = tw::wrap<float>(s.data(), {m}, {1}, device());
    add_one.launch(device().stream(), {tw::cdiv(m, 8), tw::cdiv(n, 32)}, x, y, 8, 32);
    rows.launch(device().stream(), {m}, x, sums, 64);
    bool right = true;
    for (tw::index_t i = 0; i < m; ++i) {
      float sum = 0;
      for (tw::index_t j = 0; j < n; ++j) {
        right = right && b.data()[i * n + j] == a.data()[i * n + j] + 1;
        sum += a.data()[i * n + j];
      }
      right = right && s.data()[i] == sum;
    }
    CHECK(right);
    CHECK((a.intact() && b.intact() && s.intact()));
  }
}

TEST_CASE("case 26: 1,000,003 elements, and matrix products with remainders") {
  const bool fast = device().kind() == tw::DeviceKind::cpu || device().kind() == tw::DeviceKind::cuda;
  const tw::index_t n = fast ? 1000003 : 10007;
  check_add_one(tensor<float>({1, n}, counting(n)));
  for (const tw::index_t m : {1, 31, 33, 60}) {
    const auto a = tensor<float>({m, 33}, counting(m * 33)),
               b = tensor<float>({33, 60}, std::vector<double>(33 * 60, 1));
    std::vector<double> expected;
    for (tw::index_t i = 0; i < m; ++i) {
      double s = 0;
      for (int k = 0; k < 33; ++k) s += i * 33 + k;
      expected.insert(expected.end(), 60, s);
    }
    CHECK(doubles(tw::ops::matmul(a, b)) == expected);
  }
}

TEST_CASE("case 26: the pad asked for stands in the lanes past the edge") {
  const auto k =
      tw::kernel("padded", [](In2 x, Out2 y) { tw::store(y, {0, 0}, tw::load(x, {0, 0}, {64, 64}, {.pad = -99})); });
  const auto x = tensor<float>({60, 60}, counting(3600)), y = tw::Tensor<float>::zeros(device(), {64, 64});
  k.launch(device().stream(), {1}, x, y);
  const auto got = doubles(y);
  bool right = true;
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) right = right && got[i * 64 + j] == (i < 60 && j < 60 ? i * 60 + j : -99);
  }
  CHECK(right);
}

TEST_CASE("case 28: a cumulative sum inside a loop of one trip") {
  const auto k = tw::kernel("one_trip", [](tw::View<const int, 1> x, tw::View<int, 1> y, tw::Scalar<int> trips) {
    for (auto i : tw::range(0, trips)) {
      (void)i;
      tw::store(y, {0}, tw::cumsum(tw::load(x, {0}, {8}), 0));
    }
  });
  const auto x = tensor<int>({8}, std::vector<double>(8, 1)), y = tw::Tensor<int>::zeros(device(), {8});
  k.launch(device().stream(), {1}, x, y, 1);
  CHECK(y.to_host() == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("case 29: the same launch gives the same bits, within the bound of any order") {
  const bool fast = device().kind() == tw::DeviceKind::cpu || device().kind() == tw::DeviceKind::cuda;
  const tw::index_t n = fast ? 1'000'000 : 20'000;
  const auto total = tw::kernel("total", [](In x, Out y) {
    tw::Var acc = tw::zeros<float>(1024);
    for (auto k : tw::range(0, x.extent(0), 1024)) acc += tw::load(x, {k}, {1024});
    tw::store(y, {0}, tw::sum(acc, 0));
    tw::store(y, {1}, tw::reduce(acc, 0, [](auto a, auto b) { return a + b; }));
  });
  const auto x = tw::random_normal<float>(device(), {n}, 5), y = tw::Tensor<float>::zeros(device(), {2});
  double exact = 0, size = 0;
  for (const double v : doubles(x)) {
    exact += v;
    size += std::fabs(v);
  }
  std::vector<float> first;
  for (int run = 0; run < (fast ? 100 : 5); ++run) {
    total.launch(device().stream(), {1}, x, y);
    const auto got = y.to_host();
    if (first.empty()) first = got;
    CHECK(std::memcmp(got.data(), first.data(), 2 * sizeof(float)) == 0);
  }
  const double bound = (std::ceil(static_cast<double>(n) / 1024) + 10) * std::ldexp(size, -24);
  CHECK(std::fabs(first[0] - exact) <= bound);
  CHECK(std::fabs(first[1] - exact) <= bound);
}

TEST_CASE("case 31: odd strides") {
  const auto square = tensor<float>({8, 8}, counting(64));
  check_add_one(square.transpose().slice(0, 0, 4));
  check_add_one(square.slice(0, 3, 4).broadcast_to({4, 8}));
  check_add_one(square.flip(1));
  const auto wide = tensor<float>({3, 2048}, counting(3 * 2048));
  check_add_one(wide.slice(1, 0, 1953));
  const auto keep = tensor<float>({1, 8}, counting(8));
  check_add_one(tw::wrap<float>(const_cast<float*>(keep.data()), {1, 8}, {12345, 1}, device()));
  const auto y = tw::Tensor<float>::zeros(device(), {1, 8});
  CHECK_THROWS_AS(add_one.launch(device().stream(), {1, 1}, square.slice(0, 0, 4), y.broadcast_to({4, 8}), 4, 16),
                  tw::LaunchError);
}

TEST_CASE("case 32: any alignment of the base" * doctest::skip(!on_host())) {
  const auto run = [](auto tag, std::size_t shift) {
    using T = decltype(tag);
    const auto k = tw::kernel("shifted", [](tw::View<const T, 2> x, tw::View<T, 2> y) {
      auto row = tw::program_id(0);
      for (auto c : tw::range(0, x.extent(1), 256)) tw::store(y, {row, c}, tw::load(x, {row, c}, {1, 256}) * T(2));
    });
    Guarded<T> a(3 * 1185, shift), b(3 * 1185, shift);
    for (int i = 0; i < 3 * 1185; ++i) a.data()[i] = static_cast<T>(static_cast<float>(i % 100));
    k.launch(device().stream(), {3}, tw::wrap<T>(a.data(), {3, 1185}, {1185, 1}, device()),
             tw::wrap<T>(b.data(), {3, 1185}, {1185, 1}, device()));
    bool right = true;
    for (int i = 0; i < 3 * 1185; ++i)
      right = right && static_cast<float>(b.data()[i]) == 2 * static_cast<float>(i % 100);
    CHECK(right);
    CHECK((a.intact() && b.intact()));
  };
  for (const std::size_t shift : {0, 2, 4, 8, 12}) {
    run(tw::f16{}, shift);
    if (shift % 4 == 0) run(float{}, shift);
  }
}

TEST_CASE("in-place use of a kernel that loads what it stores is right") {
  const auto k = tw::kernel("in_place", [](In x, Out y) {
    auto v = tw::load(x, {0}, {64});
    tw::store(y, {0}, v + 1);
    tw::store(y, {0}, tw::load(x, {0}, {64}) * 2);  // sees the first store where x and y are one
  });
  const auto x = tensor<float>({64}, counting(64)), y = tw::Tensor<float>::zeros(device(), {64});
  k.launch(device().stream(), {1}, x, y);
  CHECK(doubles(y)[5] == 10);
  k.launch(device().stream(), {1}, x, x);
  CHECK(doubles(x)[5] == 12);
  // Shifted by one: each lane reads what it read before anything was written.
  const auto shift = tw::kernel("shift", [](In a, Out b) { tw::store(b, {0}, tw::load(a, {0}, {63})); });
  const auto z = tensor<float>({64}, counting(64));
  shift.launch(device().stream(), {1}, z.slice(0, 0, 63), z.slice(0, 1, 64));
  std::vector<double> expected{0};
  for (int i = 0; i < 63; ++i) expected.push_back(i);
  CHECK(doubles(z) == expected);
}
