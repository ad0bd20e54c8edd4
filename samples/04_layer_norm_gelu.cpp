// Lesson 4: a library op with an epilogue. LayerNorm, then any fusion group, in one pass over memory, for every float
// type.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>

namespace tw = tileweave;

template <class T>
double largest_error(tw::Device device, tw::index_t rows, tw::index_t cols) {
  auto x = tw::random_normal<T>(device, {rows, cols}, 1);
  auto weight = tw::random_normal<T>(device, {cols}, 2);
  auto bias = tw::random_normal<T>(device, {cols}, 3);
  auto y = tw::ops::layer_norm(x, weight, bias, 1e-5f, tw::ops::gelu);

  const auto hx = x.to_host(), hw = weight.to_host(), hb = bias.to_host(), hy = y.to_host();
  double worst = 0;
  for (tw::index_t r = 0; r < rows; ++r) {
    const auto in = [&](tw::index_t c) { return double(float(hx[static_cast<std::size_t>(r * cols + c)])); };
    double mean = 0, variance = 0;
    for (tw::index_t c = 0; c < cols; ++c) mean += in(c) / double(cols);
    for (tw::index_t c = 0; c < cols; ++c) variance += std::pow(in(c)-mean, 2) / double(cols);
    for (tw::index_t c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double n = (in(c)-mean) / std::sqrt(variance + 1e-5) * float(hw[i]) + float(hb[i]);
      const double expected = 0.5 * n * (1 + std::erf(n / std::sqrt(2.0)));
      worst = std::fmax(worst, std::fabs(float(hy[static_cast<std::size_t>(r * cols + c)]) - expected) /
                                   std::fmax(1.0, std::fabs(expected)));
    }
  }
  return worst;
}

int main() {
  const tw::Device device = tw::Device::best();
  const double f32 = largest_error<float>(device, 100, 1000), f16 = largest_error<tw::f16>(device, 100, 768),
               bf16 = largest_error<tw::bf16>(device, 33, 2048);
  std::printf("04_layer_norm_gelu: max error f32 %.1e, f16 %.1e, bf16 %.1e on %s\n", f32, f16, bf16,
              device.name().c_str());
  return f32 < 1e-5 && f16 < 2e-3 && bf16 < 2e-2 ? 0 : 1;
}
