// A decorated C++ function against the same group written by hand in the language, on the best device: in a kernel,
// where literals are constants, and as a tensor expression, where those of a lambda are the launch's arguments. Medians
// of runs in turn, and their ratio.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "timing.h"

namespace tw = tileweave;

namespace plain {
TILEWEAVE_FUSION_GROUP float gelu(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}
TILEWEAVE_FUSION_GROUP float soft_clip(float x) {
  if (x < -1.0f) return -1.0f + 0.1f * (x + 1.0f);
  if (x > 1.0f) return 1.0f + 0.1f * (x - 1.0f);
  return x;
}
TILEWEAVE_FUSION_GROUP float series(float x) {
  float sum = 1, term = 1;
  for (int i = 1; i <= 8; ++i) {
    term *= x / static_cast<float>(i);
    sum += term;
  }
  return sum;
}
}  // namespace plain

#include "decorated.fusion.h"

namespace {

const auto gelu = tw::fusion_group(
    "gelu", [](auto x) { return 0.5f * x * (1.0f + tw::tanh(0.79788456f * (x + 0.044715f * x * x * x))); });
const auto soft_clip = tw::fusion_group("soft_clip", [](auto x) {
  return tw::where(x < -1.0f, -1.0f + 0.1f * (x + 1.0f), tw::where(x > 1.0f, 1.0f + 0.1f * (x - 1.0f), x));
});
const auto series = tw::fusion_group("series", [](auto x) {
  const auto t1 = x / 1.0f, t2 = t1 * (x / 2.0f), t3 = t2 * (x / 3.0f), t4 = t3 * (x / 4.0f);
  const auto t5 = t4 * (x / 5.0f), t6 = t5 * (x / 6.0f), t7 = t6 * (x / 7.0f), t8 = t7 * (x / 8.0f);
  return 1.0f + t1 + t2 + t3 + t4 + t5 + t6 + t7 + t8;
});

constexpr int rounds = 21, batch = 20;

template <class G>
inline const auto on_tiles =
    tw::kernel("on_tiles", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> block) {
      const auto i = tw::program_id(0) * block;
      tw::store(y, {i}, G{}(tw::load(x, {i}, {block})));
    });

double microseconds(const tw::Device& device, const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < batch; ++i) run();
  device.synchronize();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / batch;
}
void race(const std::string& name, const tw::Device& device, const std::function<void()>& decorated,
          const std::function<void()>& written) {
  std::vector<double> first, second;
  for (int i = 0; i <= rounds; ++i) {
    const double a = microseconds(device, decorated), b = microseconds(device, written);
    if (i > 0) first.push_back(a), second.push_back(b);  // the first compiles
  }
  const double a = tw::bench::median(first), b = tw::bench::median(second);
  std::printf("| %s | %.1f | %.1f | %.3f |\n", name.c_str(), a, b, a / b);
}

template <class Decorated, class Written>
void compare(const std::string& name, const tw::Tensor<float>& x, const Decorated& decorated, const Written& written) {
  constexpr int block = 4096;
  const tw::Device device = x.device();
  const auto y = tw::Tensor<float>::empty(device, {x.extent(0)});
  const auto in_kernel = [&](const auto& kernel) {
    kernel.launch(device.stream(), {tw::cdiv(x.extent(0), block)}, x, y, block);
  };
  race(name + ", in a kernel", device, [&] { in_kernel(on_tiles<Decorated>); }, [&] { in_kernel(on_tiles<Written>); });
  race(name + ", on a tensor", device, [&] { y.assign(decorated(x)); }, [&] { y.assign(written(x)); });
}

}  // namespace

int main() {
  const tw::Device device = tw::Device::best();
  const auto x = tw::random_normal<float>(device, {1 << 20}, 1);
  std::printf("A group of 2^20 f32 on %s, us\n\n| group | decorated | written by hand | ratio |\n|---|---|---|---|\n",
              device.name().c_str());
  compare("gelu: straight code", x, tw::fused::plain::gelu, gelu);
  compare("soft_clip: branches", x, tw::fused::plain::soft_clip, soft_clip);
  compare("series: an unrolled loop", x, tw::fused::plain::series, series);
}
