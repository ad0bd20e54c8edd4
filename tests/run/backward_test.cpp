// Gradients of linear and layer_norm with an epilogue, against the chain rule in double and against differences of the
// loss. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "reference.h"

namespace {

double gelu(double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }
double gelu_slope(double v) {
  return 0.5 * (1 + std::erf(v / std::sqrt(2.0))) + v * std::exp(-0.5 * v * v) * 0.3989422804014327;
}
const auto cubic = tw::fusion_group("cubic", [](auto x) { return tw::where(x > 0, x * x * x, 0.1 * x); });

struct Gradients {
  std::vector<double> x, weight, bias;
};

template <class T, class E, class F>
void check_linear(int m, int n, int k, const E& epilogue, const F& slope, double tolerance) {
  const auto x = tw::random_normal<T>(device(), {m, k}, 1), w = tw::random_normal<T>(device(), {n, k}, 2),
             b = tw::random_normal<T>(device(), {n}, 3), dy = tw::random_normal<T>(device(), {m, n}, 4);
  const auto got = tw::ops::linear_backward(dy, x, w, b, epilogue);
  const auto hx = doubles(x), hw = doubles(w), hb = doubles(b), hd = doubles(dy);
  Gradients g{std::vector<double>(m * k), std::vector<double>(n * k), std::vector<double>(n)};
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double z = hb[j];
      for (int l = 0; l < k; ++l) z += hx[i * k + l] * hw[j * k + l];
      const double dz = hd[i * n + j] * slope(z);
      g.bias[j] += dz;
      for (int l = 0; l < k; ++l) g.x[i * k + l] += dz * hw[j * k + l], g.weight[j * k + l] += dz * hx[i * k + l];
    }
  }
  CHECK(error(doubles(got.x), g.x) < tolerance);
  CHECK(error(doubles(got.weight), g.weight) < tolerance);
  CHECK(error(doubles(got.bias), g.bias) < tolerance);
}

template <class T, class E, class F>
void check_layer_norm(int rows, int n, const E& epilogue, const F& slope, double tolerance) {
  const auto x = tw::random_normal<T>(device(), {rows, n}, 1), w = tw::random_normal<T>(device(), {n}, 2),
             b = tw::random_normal<T>(device(), {n}, 3), dy = tw::random_normal<T>(device(), {rows, n}, 4);
  const auto got = tw::ops::layer_norm_backward(dy, x, w, b, 1e-5, epilogue);
  const auto hx = doubles(x), hw = doubles(w), hb = doubles(b), hd = doubles(dy);
  Gradients g{std::vector<double>(rows * n), std::vector<double>(n), std::vector<double>(n)};
  for (int r = 0; r < rows; ++r) {
    double mean = 0, variance = 0, flow = 0, product = 0;
    for (int c = 0; c < n; ++c) mean += hx[r * n + c] / n;
    for (int c = 0; c < n; ++c) variance += (hx[r * n + c] - mean) * (hx[r * n + c] - mean) / n;
    const double scale = 1 / std::sqrt(variance + 1e-5);
    std::vector<double> h(n), f(n);
    for (int c = 0; c < n; ++c) {
      h[c] = (hx[r * n + c] - mean) * scale;
      const double dz = hd[r * n + c] * slope(h[c] * hw[c] + hb[c]);
      g.weight[c] += dz * h[c], g.bias[c] += dz;
      f[c] = dz * hw[c];
      flow += f[c] / n, product += f[c] * h[c] / n;
    }
    for (int c = 0; c < n; ++c) g.x[r * n + c] = scale * (f[c] - flow - h[c] * product);
  }
  CHECK(error(doubles(got.x), g.x) < tolerance);
  CHECK(error(doubles(got.weight), g.weight) < tolerance);
  CHECK(error(doubles(got.bias), g.bias) < tolerance);
}

// A central difference of four points, and what it may be wrong by. Its truncation is of order h^4, so that of 2 h
// differs from it by 15 times its own. A loss is a sum of y dy, wrong by less than 64 roundings of the sum of their
// sizes: 18 losses over 12 h. (Two points cannot show 1e-9: at h = 1e-3 the truncation is 1e-6, at 1e-6 the rounding is
// 1e-8.)
struct Difference {
  double value, bound;
};
template <class F>
Difference difference(std::vector<double>& x, std::size_t i, const F& loss) {
  constexpr double h = 1e-3, unit = 0x1p-53;
  const double before = x[i];
  double losses[3], size = 0;  // at h, 2 h and 4 h
  for (int k = 0; k < 3; ++k) {
    x[i] = before + h * (1 << k);
    const auto [up, up_size] = loss();
    x[i] = before - h * (1 << k);
    const auto [down, down_size] = loss();
    losses[k] = up - down;
    size = std::max({size, up_size, down_size});
  }
  x[i] = before;
  const double fine = (8 * losses[0] - losses[1]) / (12 * h), coarse = (8 * losses[1] - losses[2]) / (24 * h);
  return {fine, std::abs(coarse - fine) + 18.0 / 12 / h * 64 * unit * size};
}

double one(double) { return 1; }
double cubic_slope(double v) { return v > 0 ? 3 * v * v : 0.1; }

}  // namespace

TEST_CASE("linear backward, the activation's derivative fused") {
  check_linear<float>(33, 17, 50, tw::gelu, gelu_slope, 2e-5);
  check_linear<float>(8, 70, 20, cubic, cubic_slope, 2e-4);
  check_linear<float>(5, 9, 3, tw::identity, one, 1e-5);
  check_linear<double>(19, 31, 23, tw::gelu, gelu_slope, 1e-13);
  check_linear<tw::f16>(16, 12, 24, tw::gelu, gelu_slope, 2e-2);
}

TEST_CASE("layer_norm backward, the activation's derivative fused; long rows and odd sizes") {
  check_layer_norm<float>(7, 33, tw::gelu, gelu_slope, 2e-5);
  check_layer_norm<float>(70, 100, tw::identity, one, 4e-5);
  check_layer_norm<float>(2, 9000, tw::gelu, gelu_slope, 2e-4);
  check_layer_norm<double>(5, 19, cubic, cubic_slope, 1e-12);
  check_layer_norm<tw::bf16>(9, 40, tw::gelu, gelu_slope, 1e-1);
}

TEST_CASE("the gradients are those of the forward ops: differences of a loss") {
  const int rows = 3, n = 10;
  std::vector<double> x = doubles(tw::random_normal<double>(device(), {rows, n}, 1)),
                      weight = doubles(tw::random_normal<double>(device(), {n}, 2)),
                      bias = doubles(tw::random_normal<double>(device(), {n}, 3));
  const auto dy = tw::random_normal<double>(device(), {rows, n}, 4);
  const auto flow = doubles(dy);
  const auto loss = [&] {
    const auto y = doubles(tw::ops::layer_norm(tensor<double>({rows, n}, x), tensor<double>({n}, weight),
                                               tensor<double>({n}, bias), 1e-5, tw::gelu));
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * flow[i], size += std::abs(y[i] * flow[i]);
    return std::pair(sum, size);
  };
  const auto got = tw::ops::layer_norm_backward(dy, tensor<double>({rows, n}, x), tensor<double>({n}, weight),
                                                tensor<double>({n}, bias), 1e-5, tw::gelu);
  const auto check = [&](const char* name, const std::vector<double>& gradient, std::vector<double>& operand) {
    for (std::size_t i = 0; i < operand.size(); i += 3) {
      const Difference d = difference(operand, i, loss);
      CHECK_MESSAGE(std::abs(gradient[i] - d.value) <= d.bound, name, " ", i, ": ", gradient[i], ", difference ",
                    d.value, " within ", d.bound);
      CHECK(d.bound < 1e-6);
    }
  };
  check("x", doubles(got.x), x);
  check("weight", doubles(got.weight), weight);
  check("bias", doubles(got.bias), bias);
}

TEST_CASE("backward ops refuse what does not fit, and take nothing") {
  const auto x = tw::Tensor<float>::zeros(device(), {2, 3}), w = tw::Tensor<float>::zeros(device(), {4, 3}),
             b = tw::Tensor<float>::zeros(device(), {4});
  CHECK_THROWS_AS(tw::ops::linear_backward(x, x, w, b), tw::LaunchError);
  const auto v = tw::Tensor<float>::zeros(device(), {3});
  CHECK_THROWS_AS(tw::ops::layer_norm_backward(w, x, v, v, 1e-5), tw::LaunchError);
  const auto empty = tw::Tensor<float>::zeros(device(), {0, 3});
  CHECK(doubles(tw::ops::layer_norm_backward(empty, empty, v, v, 1e-5, tw::gelu).weight) ==
        std::vector<double>{0, 0, 0});
  CHECK(doubles(tw::ops::linear_backward(tw::Tensor<float>::zeros(device(), {0, 4}), empty, w, b, tw::gelu).bias) ==
        std::vector<double>(4, 0.0));
  CHECK(gelu(0) == 0);
}
