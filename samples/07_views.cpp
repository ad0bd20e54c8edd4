// Lesson 7: views. Transposed, sliced, reversed and broadcast tensors go into any kernel; the right code is made for
// each.
#include <tileweave/tileweave.h>

#include <cstdio>

namespace tw = tileweave;

int main() {
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {60, 40}, 1);
  auto y = tw::random_normal<float>(device, {40, 60}, 2);

  tw::Tensor<float> a = x.transpose() + y;                     // 40 x 60
  tw::Tensor<float> b = x.slice(0, 5, 45).transpose() * 2.0f;  // 40 x 40: rows 5..44, transposed
  tw::Tensor<float> c = x.flip(1) - x;                         // columns reversed

  const auto hx = x.to_host(), hy = y.to_host(), ha = a.to_host(), hb = b.to_host(), hc = c.to_host();
  const auto at = [](tw::index_t i, tw::index_t j, tw::index_t cols) { return static_cast<std::size_t>(i * cols + j); };
  for (tw::index_t i = 0; i < 40; ++i)
    for (tw::index_t j = 0; j < 60; ++j)
      if (ha[at(i, j, 60)] != hx[at(j, i, 40)] + hy[at(i, j, 60)]) return std::puts("transposed sum is wrong"), 1;
  for (tw::index_t i = 0; i < 40; ++i)
    for (tw::index_t j = 0; j < 40; ++j)
      if (hb[at(i, j, 40)] != hx[at(5 + j, i, 40)] * 2.0f) return std::puts("slice is wrong"), 1;
  for (tw::index_t i = 0; i < 60; ++i)
    for (tw::index_t j = 0; j < 40; ++j)
      if (hc[at(i, j, 40)] != hx[at(i, 39 - j, 40)] - hx[at(i, j, 40)]) return std::puts("flip is wrong"), 1;
  std::printf("07_views: right on %s\n", device.name().c_str());
}
