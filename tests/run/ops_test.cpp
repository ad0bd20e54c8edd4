// The library's ops against loops in double: shapes, axes, types, epilogues, long and empty rows.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include "reference.h"

namespace {

double gelu(double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }

template <class T>
void check_layer_norm(tw::index_t rows, tw::index_t cols, double tolerance) {
  const auto x = tw::random_normal<T>(device(), {rows, cols}, 1), w = tw::random_normal<T>(device(), {cols}, 2),
             b = tw::random_normal<T>(device(), {cols}, 3);
  const auto plain = doubles(tw::ops::layer_norm(x, w, b, 1e-5));
  const auto fused = doubles(tw::ops::layer_norm(x, w, b, 1e-5, tw::gelu));
  const auto rms = doubles(tw::ops::rms_norm(x, w, 1e-5));
  const auto hx = doubles(x), hw = doubles(w), hb = doubles(b);
  std::vector<double> e1, e2, e3;
  for (tw::index_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0, square = 0;
    for (tw::index_t c = 0; c < cols; ++c) mean += hx[r * cols + c] / cols;
    for (tw::index_t c = 0; c < cols; ++c) {
      variance += (hx[r * cols + c] - mean) * (hx[r * cols + c] - mean) / cols;
      square += hx[r * cols + c] * hx[r * cols + c] / cols;
    }
    for (tw::index_t c = 0; c < cols; ++c) {
      e1.push_back((hx[r * cols + c] - mean) / std::sqrt(variance + 1e-5) * hw[c] + hb[c]);
      e2.push_back(gelu(e1.back()));
      e3.push_back(hx[r * cols + c] / std::sqrt(square + 1e-5) * hw[c]);
    }
  }
  CHECK(error(plain, e1) < tolerance);
  CHECK(error(fused, e2) < tolerance);
  CHECK(error(rms, e3) < tolerance);
}

template <class T>
void check_softmax(const std::vector<tw::index_t>& shape, int axis, double tolerance) {
  const auto x = tw::random_normal<T>(device(), shape, 4);
  const auto got = doubles(tw::ops::softmax(x, axis));
  tw::index_t inner = 1, n = shape[axis < 0 ? axis + shape.size() : axis];
  for (std::size_t i = (axis < 0 ? axis + shape.size() : axis) + 1; i < shape.size(); ++i) inner *= shape[i];
  const auto h = doubles(x);
  std::vector<double> expected(h.size());
  for (std::size_t start = 0; start < h.size(); ++start) {
    if (start / inner % n != 0) continue;
    double top = -HUGE_VAL, total = 0;
    for (tw::index_t k = 0; k < n; ++k) top = std::fmax(top, h[start + k * inner]);
    for (tw::index_t k = 0; k < n; ++k) total += std::exp(h[start + k * inner] - top);
    for (tw::index_t k = 0; k < n; ++k) expected[start + k * inner] = std::exp(h[start + k * inner] - top) / total;
  }
  CHECK(error(got, expected) < tolerance);
}

template <class T>
void check_matmul(tw::index_t m, tw::index_t k, tw::index_t n, double tolerance) {
  const auto a = tw::random_normal<T>(device(), {m, k}, 1), b = tw::random_normal<T>(device(), {k, n}, 2),
             bias = tw::random_normal<T>(device(), {n}, 3);
  const auto ha = doubles(a), hb = doubles(b), hc = doubles(bias);
  std::vector<double> product, linear;
  for (tw::index_t i = 0; i < m; ++i) {
    for (tw::index_t j = 0; j < n; ++j) {
      double s = 0;
      for (tw::index_t l = 0; l < k; ++l) s += ha[i * k + l] * hb[l * n + j];
      product.push_back(s);
      linear.push_back(std::fmax(s + hc[j], 0.0));
    }
  }
  CHECK(error(doubles(tw::ops::matmul(a, b)), product) < tolerance);
  CHECK(error(doubles(tw::ops::linear(a, b.transpose(), bias, tw::relu)), linear) < tolerance);
}

}  // namespace

TEST_CASE("layer_norm and rms_norm") {
  check_layer_norm<float>(5, 1, 1e-5);
  check_layer_norm<float>(3, 100, 1e-5);
  check_layer_norm<float>(2, 1024, 1e-5);
  check_layer_norm<double>(2, 33, 1e-12);
  check_layer_norm<tw::f16>(3, 100, 2e-3);
  check_layer_norm<tw::bf16>(3, 100, 2e-2);
  check_layer_norm<float>(2, 8192, 1e-5);  // over many warps, whole and in part
  check_layer_norm<float>(2, 5000, 1e-5);
  check_layer_norm<tw::f16>(2, 16384, 2e-3);
  check_layer_norm<float>(1, 20000, 1e-5);  // in pieces
  const auto w = tensor<float>({4}, {1, 1, 1, 1});
  const auto x = tw::random_normal<float>(device(), {2, 3, 4}, 1);
  CHECK(tw::ops::layer_norm(x, w, w, 1e-5).dims() == 3);
  CHECK(tw::ops::layer_norm(tw::Tensor<float>::empty(device(), {0, 4}), w, w, 1e-5).size() == 0);
  // Any strides of a matrix, on a stream of its own.
  const auto t = tw::random_normal<float>(device(), {4, 6}, 1);
  const tw::Stream stream(device());
  CHECK(doubles(tw::ops::layer_norm(t.transpose(), w, w, 1e-5, stream)) ==
        doubles(tw::ops::layer_norm(t.transpose().contiguous(), w, w, 1e-5)));
}

TEST_CASE("softmax along every axis") {
  check_softmax<float>({5, 33}, 1, 1e-6);
  check_softmax<float>({5, 33}, 0, 1e-6);
  check_softmax<float>({3, 4, 5}, 1, 1e-6);
  check_softmax<float>({3, 4, 5}, -1, 1e-6);
  check_softmax<tw::f16>({4, 100}, 1, 1e-3);
  check_softmax<float>({2, 8192}, 1, 1e-6);
  check_softmax<float>({2, 5000}, 1, 1e-6);
  check_softmax<float>({1, 20000}, 1, 1e-6);
  // Large values do not overflow; rows of -inf in part are fine.
  const auto x = tensor<float>({1, 4}, {1000, 1000, -HUGE_VAL, -HUGE_VAL});
  CHECK(doubles(tw::ops::softmax(x, 1)) == std::vector<double>{0.5, 0.5, 0, 0});
  std::vector<double> wide(20000, -HUGE_VAL);
  wide[7] = wide[15000] = 3;
  const auto y = doubles(tw::ops::softmax(tensor<float>({1, 20000}, wide), 1));
  CHECK(y[7] == 0.5);
  CHECK(y[15000] == 0.5);
  CHECK(y[0] == 0);
}

template <class T>
void check_batched(tw::index_t batch, tw::index_t m, tw::index_t k, tw::index_t n, double tolerance) {
  const auto a = tw::random_normal<T>(device(), {batch, m, k}, 1), b = tw::random_normal<T>(device(), {batch, k, n}, 2);
  const auto ha = doubles(a), hb = doubles(b);
  std::vector<double> expected;
  for (tw::index_t i = 0; i < batch * m; ++i) {
    for (tw::index_t j = 0; j < n; ++j) {
      double s = 0;
      for (tw::index_t l = 0; l < k; ++l) s += ha[i * k + l] * hb[(i / m * k + l) * n + j];
      expected.push_back(std::fmax(s, 0.0));
    }
  }
  CHECK(error(doubles(tw::ops::batched_matmul(a, b, tw::relu)), expected) < tolerance);
}

TEST_CASE("a product for each matrix of a batch") {
  check_batched<float>(3, 20, 10, 33, 1e-5);
  check_batched<tw::f16>(2, 72, 136, 80, 1e-2);
  check_batched<float>(0, 4, 4, 4, 1e-5);
  const auto a = tw::random_normal<float>(device(), {2, 3, 4}, 1), b = tw::random_normal<float>(device(), {2, 3, 5}, 2);
  CHECK_THROWS_WITH_AS(tw::ops::batched_matmul(a, b), doctest::Contains("batches or inner extents differ"),
                       tw::LaunchError);
}

TEST_CASE("blocks of a product follow its shape and the device") {
  tw::DeviceFacts hopper;
  hopper.units = 132;
  hopper.compute_major = 9;
  const auto plan = [&](tw::index_t m, tw::index_t n, tw::index_t k) {
    return tw::ops::plan_matmul(hopper, 2, m, n, k);
  };
  tw::ops::MatmulPlan p = plan(4096, 4096, 4096);
  CHECK(p.block.m == 128);
  CHECK(p.block.n == 256);
  CHECK(p.warps == 8);
  // 64 tiles of 128 x 256 would leave half of the multiprocessors without work.
  p = plan(1024, 2048, 4096);
  CHECK(p.block.m * p.block.n < 128 * 256);
  CHECK(plan(16, 4096, 4096).block.m == 16);
  CHECK(plan(40, 4096, 4096).block.m == 32);
  CHECK(tw::ops::plan_matmul({}, 2, 4096, 4096, 4096).block.m == 64);
  CHECK(tw::ops::plan_matmul(hopper, 4, 4096, 4096, 4096).block.m == 64);
  CHECK(plan(4096, 8, 4096).block.n == 16);
}

TEST_CASE("matmul and linear") {
  check_matmul<float>(1, 1, 1, 1e-6);
  check_matmul<float>(33, 45, 17, 1e-5);
  check_matmul<float>(64, 64, 64, 1e-5);
  check_matmul<float>(130, 7, 70, 1e-5);
  check_matmul<double>(20, 30, 10, 1e-12);
  check_matmul<tw::f16>(33, 45, 17, 5e-3);
  check_matmul<tw::bf16>(16, 40, 20, 3e-2);
  check_matmul<tw::f16>(130, 200, 136, 1e-2);  // blocks of tensor cores on a GPU
}

TEST_CASE("K = 0 gives zeros, or the bias") {
  const auto a = tw::Tensor<float>::empty(device(), {3, 0}), b = tw::Tensor<float>::empty(device(), {0, 2}),
             w = tw::Tensor<float>::empty(device(), {2, 0}), bias = tensor<float>({2}, {5, -6});
  CHECK(doubles(tw::ops::matmul(a, b)) == std::vector<double>(6, 0));
  CHECK(doubles(tw::ops::linear(a, w, bias)) == std::vector<double>{5, -6, 5, -6, 5, -6});
  CHECK(doubles(tw::ops::linear(a, w, bias, tw::relu)) == std::vector<double>{5, 0, 5, 0, 5, 0});
}

TEST_CASE("reductions along every axis, of every kind of type, of nothing") {
  const auto x = tensor<float>({2, 3, 4}, counting(24));
  CHECK(doubles(tw::ops::sum(x, 0)) == std::vector<double>{12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34});
  CHECK(doubles(tw::ops::sum(x, 2)) == std::vector<double>{6, 22, 38, 54, 70, 86});
  CHECK(doubles(tw::ops::mean(x, 1)) == std::vector<double>{4, 5, 6, 7, 16, 17, 18, 19});
  CHECK(doubles(tw::ops::max(x, -1)) == std::vector<double>{3, 7, 11, 15, 19, 23});
  CHECK(doubles(tw::ops::min(tw::Tensor<float>(-x), 0)) == doubles(tw::Tensor<float>(-tw::ops::max(x, 0))));
  CHECK(tw::ops::sum(x, 1).dims() == 2);
  const auto i = tensor<int>({2, 2}, {1, 2, 3, 4});
  CHECK(doubles(tw::ops::prod(i, 0)) == std::vector<double>{3, 8});
  const auto h = tensor<tw::f16>({5000}, std::vector<double>(5000, 1));  // more than f16 can count to by ones
  CHECK(doubles(tw::ops::sum(h, 0)) == std::vector<double>{5000});
  const auto none = tw::Tensor<float>::empty(device(), {2, 0});
  CHECK(doubles(tw::ops::sum(none, 1)) == std::vector<double>{0, 0});
  CHECK(doubles(tw::ops::max(none, 1)) == std::vector<double>{-HUGE_VAL, -HUGE_VAL});
  CHECK(error(doubles(tw::ops::mean(none, 1)), {std::nan(""), std::nan("")}) == 0);
}
