// Lesson 3: reductions. A row that does not fill its block reduces over its own lanes only: no fill value, no mask.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>

namespace tw = tileweave;

const auto softmax = tw::kernel("softmax", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> block) {
  auto row = tw::program_id(0);
  auto v = tw::load(x, {row, 0}, {1, block});
  auto e = tw::exp(v - tw::max(v, 1, tw::keep_dims));
  tw::store(y, {row, 0}, e / tw::sum(e, 1, tw::keep_dims));
});

int main() {
  const tw::index_t rows = 200, cols = 777;
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {rows, cols}, 4);
  auto y = tw::Tensor<float>::empty(device, {rows, cols});

  softmax.launch(device.stream(), {rows}, x, y, tw::next_pow2(cols));

  const auto hx = x.to_host(), hy = y.to_host();
  double worst = 0;
  for (tw::index_t r = 0; r < rows; ++r) {
    const auto at = [&](tw::index_t c) { return static_cast<std::size_t>(r * cols + c); };
    double total = 0;
    for (tw::index_t c = 0; c < cols; ++c) total += std::exp(double(hx[at(c)]));
    for (tw::index_t c = 0; c < cols; ++c)
      worst = std::fmax(worst, std::fabs(hy[at(c)] - std::exp(double(hx[at(c)])) / total));
  }
  std::printf("03_softmax: max error %.1e on %s\n", worst, device.name().c_str());
  return worst < 1e-6 ? 0 : 1;
}
