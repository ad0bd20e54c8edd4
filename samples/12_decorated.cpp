// Lesson 12: a plain C++ function as a fusion group. TILEWEAVE_FUSION_GROUP marks it; CMake's tileweave_fusion_groups
// makes tw::fused::shrink of it, and it stays a function.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>

namespace tw = tileweave;

TILEWEAVE_FUSION_GROUP float shrink(float x, float width) {
  if (std::fabs(x) <= width) return 0.0f;
  float y = x;
  for (int i = 0; i < 3; ++i) y -= 0.5f * width * std::tanh(y / width);
  return y;
}

#include "12_decorated.fusion.h"  // written by the build

int main() {
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {20'000}, 8);
  tw::Tensor<float> y = tw::fused::shrink(3.0f * x, 0.5f);                  // one launch
  auto [value, slope] = tw::value_and_grad<0>(tw::fused::shrink)(x, 0.5f);  // both, in one launch

  const auto hx = x.to_host(), hy = y.to_host(), hv = value.to_host(), hs = slope.to_host();
  double worst = 0, worst_slope = 0;
  for (std::size_t i = 0; i < hx.size(); ++i) {
    worst = std::fmax(worst, std::fabs(hy[i] - shrink(3.0f * hx[i], 0.5f)));  // the function itself
    const float h = 1e-3f;
    if (std::fabs(std::fabs(hx[i]) - 0.5f) < 2 * h) continue;  // the jump
    worst_slope =
        std::fmax(worst_slope, std::fabs(hs[i] - (shrink(hx[i] + h, 0.5f) - shrink(hx[i] - h, 0.5f)) / (2 * h)));
    worst = std::fmax(worst, std::fabs(hv[i] - tw::fused::shrink(hx[i], 0.5f)));  // the group on a host scalar
  }
  std::printf("12_decorated: max error %.1e, of the gradient %.1e on %s\n", worst, worst_slope, device.name().c_str());
  return worst < 1e-5 && worst_slope < 2e-3 ? 0 : 1;
}
