// A kernel inside a library that is opened and closed again while the process lives on.
// Opened by plugin_host.cpp; the kernel goes with the library.
#include <tileweave/tileweave.h>

#include <vector>

namespace tw = tileweave;

namespace {
const auto twice = tw::kernel("twice", [](tw::View<const float, 1> x, tw::View<float, 1> y) {
  tw::store(y, {0}, tw::load(x, {0}, {32}) * 2.0f);
});
}  // namespace

extern "C" int run_plugin() {
  const tw::Device device = tw::Device::best();
  const std::vector<float> ones(32, 1.0f);
  auto x = tw::Tensor<float>::from_host(device, {32}, ones);
  auto y = tw::Tensor<float>::empty(device, {32});
  twice.launch(device.stream(), {1}, x, y);
  return y.to_host()[31] == 2.0f ? 0 : 1;
}
