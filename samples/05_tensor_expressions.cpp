// Lesson 5: arithmetic on whole tensors. An expression is one fused kernel, made when it is assigned; shapes broadcast.
#include <tileweave/tileweave.h>

#include <cstdio>

namespace tw = tileweave;

int main() {
  const tw::index_t rows = 300, cols = 257;
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {rows, cols}, 1);
  auto bias = tw::random_normal<float>(device, {cols}, 2);

  const auto before = tw::launch_count();
  tw::Tensor<float> y = tw::maximum(x * 0.5f + bias, 0.0f) - x;
  const auto launches = tw::launch_count() - before;

  const auto hx = x.to_host(), hb = bias.to_host(), hy = y.to_host();
  double worst = 0;
  for (tw::index_t i = 0; i < rows * cols; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double v = double(hx[at]) * 0.5 + double(hb[static_cast<std::size_t>(i % cols)]);
    worst = std::max(worst, std::abs(double(hy[at]) - ((v > 0 ? v : 0) - double(hx[at]))));
  }
  std::printf("05_tensor_expressions: %lld launch, max error %.1e on %s\n", static_cast<long long>(launches), worst,
              device.name().c_str());
  return worst < 1e-5 && launches == 1 ? 0 : 1;
}
