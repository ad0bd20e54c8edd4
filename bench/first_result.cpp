// From main() to the first kernel's result, for a cache in whatever state it is: run in new processes by deployment.py.
// Prints milliseconds as "name=value": opening the device (a GPU's context), tensors, the first call with its result,
// a second call, and what was compiled.
#include <tileweave/tileweave.h>

#include <chrono>
#include <cstdio>

namespace tw = tileweave;

namespace {
using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

const auto softmax = tw::kernel("softmax", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> block) {
  auto row = tw::program_id(0);
  auto v = tw::load(x, {row, 0}, {1, block});
  auto e = tw::exp(v - tw::max(v, 1, tw::keep_dims));
  tw::store(y, {row, 0}, e / tw::sum(e, 1, tw::keep_dims));
});
}  // namespace

int main() {
  const auto start = Clock::now();
  const tw::Device device = tw::Device::best();
  const tw::Stream stream = device.stream();
  device.synchronize();
  const double opened = since(start);
  auto x = tw::Tensor<float>::zeros(device, {128, 1024});
  auto y = tw::Tensor<float>::empty(device, {128, 1024});
  device.synchronize();
  const double tensors = since(start);
  softmax.launch(stream, {128}, x, y, 1024);
  device.synchronize();
  const double first = since(start);
  const bool is_right = y.to_host()[1000] == 1.0f / 1024;
  const double all = since(start);
  softmax.launch(stream, {128}, x, y, 1024);
  device.synchronize();
  const double second = since(start) - all;
  std::printf("device=%.3f\ntensors=%.3f\nfirst_call=%.3f\nresult=%.3f\nsecond_call=%.3f\ncompiled=%llu\n", opened,
              tensors - opened, first - tensors, all, second,
              static_cast<unsigned long long>(tw::cache_counters().compiled));
  return is_right ? 0 : 1;
}
