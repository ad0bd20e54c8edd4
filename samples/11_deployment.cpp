// Lesson 11: deployment. What a program used can be recorded, compiled for any machine beforehand, and shipped; the
// counters prove that nothing was compiled. Given a manifest, it also warms the cache while it runs.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>

namespace tw = tileweave;

const auto normalize =
    tw::kernel("normalize", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> block) {
      auto row = tw::program_id(0);
      auto v = tw::load(x, {row, 0}, {1, block});
      auto length = tw::sqrt(tw::sum(v * v, 1, tw::keep_dims));
      tw::store(y, {row, 0}, v / length);
    });

bool is_right(const tw::Tensor<float>& y) {
  const auto h = y.to_host();
  for (tw::index_t i = 0; i < y.extent(0); ++i) {
    double squares = 0;
    for (tw::index_t j = 0; j < y.extent(1); ++j) {
      const double v = h[static_cast<std::size_t>(i * y.extent(1) + j)];
      squares += v * v;
    }
    if (std::abs(squares - 1) > 1e-5) return false;
  }
  return true;
}

int main(int count, char** arguments) {
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {60, 1000}, 1);
  auto y = tw::Tensor<float>::empty(device, {60, 1000});
  if (count > 1) {
    tw::set_meanwhile(tw::Meanwhile::generic);
    tw::Warmup warmup = tw::warmup_async(arguments[1], device);
    normalize.launch(device.stream(), {60}, x, y, 1024);  // does not wait for its own variant
    warmup.wait();
    for (const auto& f : warmup.failures()) std::printf("%s: %s\n", f.kernel.c_str(), f.message.c_str());
  }
  normalize.launch(device.stream(), {60}, x, y, 1024);
  if (!is_right(y)) return std::puts("normalize is wrong"), 1;

  const tw::CacheCounters c = tw::cache_counters();
  std::printf("11_deployment: right on %s; %llu kernels compiled\n", device.name().c_str(),
              static_cast<unsigned long long>(c.compiled));
}
