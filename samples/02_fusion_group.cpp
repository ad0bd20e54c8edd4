// Lesson 2: a fusion group. Written once; a host function, a piece of a kernel, a whole-tensor operation, and
// differentiable.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>

namespace tw = tileweave;

const auto swish_square = tw::fusion_group("swish_square", [](auto x) { return x * x * tw::sigmoid(x); });

int main() {
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {50'000}, 3);
  tw::Tensor<float> y = swish_square(2.0f * x + 1.0f);  // one launch
  tw::Tensor<float> slope = tw::grad(swish_square)(x);  // its derivative, one launch

  const auto hx = x.to_host(), hy = y.to_host(), hs = slope.to_host();
  double worst = 0, worst_slope = 0;
  for (std::size_t i = 0; i < hx.size(); ++i) {
    worst = std::fmax(worst, std::fabs(hy[i] - swish_square(2.0f * hx[i] + 1.0f)));  // on a host scalar
    const double s = 1 / (1 + std::exp(-double(hx[i])));
    worst_slope = std::fmax(worst_slope, std::fabs(hs[i] - (2 * hx[i] * s + hx[i] * hx[i] * s * (1 - s))));
  }
  std::printf("02_fusion_group: max error %.1e, of the gradient %.1e on %s\n", worst, worst_slope,
              device.name().c_str());
  return worst < 1e-5 && worst_slope < 1e-5 ? 0 : 1;
}
