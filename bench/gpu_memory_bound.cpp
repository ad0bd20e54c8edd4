// GPU: memory-bound kernels as a share of a same-size copy timed the same way, in one run. Prints a Markdown table.
// A 256 MB buffer is overwritten before each timed call, so that inputs start outside the L2; device events; medians.
#include <tileweave/tileweave.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "timing.h"

namespace tw = tileweave;

namespace {
template <class T>
const auto add_kernel =
    tw::kernel("add", [](tw::View<const T, 1> a, tw::View<const T, 1> b, tw::View<T, 1> c, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      tw::store(c, {first}, tw::load(a, {first}, {block}) + tw::load(b, {first}, {block}));
    });

template <class T>
const auto gelu_kernel =
    tw::kernel("gelu", [](tw::View<const T, 1> x, tw::View<T, 1> y, tw::Const<bool> tanh_form, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      auto v = tw::load(x, {first}, {block});
      if (tanh_form) {
        tw::store(y, {first}, tw::gelu_tanh(v));
      } else {
        tw::store(y, {first}, tw::gelu(v));
      }
    });

class Bench {
 public:
  explicit Bench(tw::Device device)
      : device_(device),
        stream_(device.stream()),
        flush_(tw::Tensor<float>::empty(device, {std::int64_t{64} << 20})),
        zeros_(tw::Tensor<float>::zeros(device, {std::int64_t{64} << 20})) {}

  tw::Stream stream() const { return stream_; }

  // Median milliseconds of each call, called in turn.
  std::vector<double> race(const std::vector<std::function<void()>>& calls) {
    std::vector<std::vector<double>> ms(calls.size());
    for (int round = 0; round < 22; ++round)
      for (std::size_t i = 0; i < calls.size(); ++i) {
        flush_.copy_from(zeros_);
        const tw::Event start = stream_.record();
        calls[i]();
        const tw::Event end = stream_.record();
        if (round > 1) ms[i].push_back(end.elapsed_ms_since(start));
      }
    std::vector<double> medians;
    for (auto& v : ms) medians.push_back(tw::bench::median(v));
    return medians;
  }

  // One line: ours beside a copy that moves as many bytes in all.
  void line(const std::string& what, const char* dtype, const std::string& shape, double bytes,
            const std::function<void()>& ours) {
    const auto half = static_cast<tw::index_t>(bytes / 8);
    auto from = tw::Tensor<float>::zeros(device_, {half}), to = tw::Tensor<float>::empty(device_, {half});
    const auto t = race({ours, [&] { to.copy_from(from); }});
    std::printf("| %s | %s | %s | %.4f | %.0f | %.4f | %.1f |\n", what.c_str(), dtype, shape.c_str(), t[0],
                bytes / t[0] / 1e6, t[1], 100 * t[1] / t[0]);
    std::fflush(stdout);
  }

 private:
  tw::Device device_;
  tw::Stream stream_;
  tw::Tensor<float> flush_, zeros_;
};

template <class T>
void flat(Bench& bench, tw::Device device, tw::index_t n, const char* dtype) {
  auto a = tw::random_normal<T>(device, {1 << 20}, 1);
  auto x = tw::Tensor<T>::zeros(device, {n}), b = tw::Tensor<T>::zeros(device, {n}),
       y = tw::Tensor<T>::empty(device, {n});
  for (tw::index_t at = 0; at + (1 << 20) <= n; at += 1 << 20) {  // random values: zeros run faster than real data
    x.slice(0, at, at + (1 << 20)).copy_from(a);
    b.slice(0, at, at + (1 << 20)).copy_from(a);
  }
  const std::string shape = std::to_string(n);
  const double bytes = double(n) * sizeof(T);
  const int block = 1024;
  const tw::index_t grid = tw::cdiv(n, block);
  const tw::Stream s = bench.stream();
  bench.line("add", dtype, shape, 3 * bytes, [&] { add_kernel<T>.launch(s, {grid}, x, b, y, block); });
  bench.line("gelu exact", dtype, shape, 2 * bytes, [&] { gelu_kernel<T>.launch(s, {grid}, x, y, false, block); });
  bench.line("gelu tanh", dtype, shape, 2 * bytes, [&] { gelu_kernel<T>.launch(s, {grid}, x, y, true, block); });
}

template <class T>
void rows(Bench& bench, tw::Device device, tw::index_t r, tw::index_t c, const char* dtype) {
  auto x = tw::random_normal<T>(device, {r, c}, 1);
  auto w = tw::random_normal<T>(device, {c}, 2), g = tw::random_normal<T>(device, {c}, 3);
  const std::string shape = std::to_string(r) + "x" + std::to_string(c);
  const double bytes = 2.0 * double(r * c) * sizeof(T);
  bench.line("softmax", dtype, shape, bytes, [&] { auto y = tw::ops::softmax(x, 1); });
  bench.line("LayerNorm", dtype, shape, bytes, [&] { auto y = tw::ops::layer_norm(x, w, g, 1e-5f); });
  bench.line("LayerNorm+GELU", dtype, shape, bytes,
             [&] { auto y = tw::ops::layer_norm(x, w, g, 1e-5f, tw::ops::gelu); });
}
}  // namespace

int main() {
  if (tw::Device::count_cuda() == 0) return std::printf("no GPU: %s\n", tw::Device::why_no_cuda().c_str()), 1;
  const tw::Device device = tw::Device::cuda(0);
  Bench bench(device);
  std::printf("%s, driver %d\n\n", device.name().c_str(), device.facts().driver_version);
  std::printf("| op | dtype | shape | ms | GB/s | copy ms | %% of copy |\n|---|---|---|---|---|---|---|\n");
  const tw::index_t n = tw::index_t{1} << 28;
  flat<float>(bench, device, n, "f32");
  flat<tw::f16>(bench, device, n, "f16");
  flat<tw::bf16>(bench, device, n, "bf16");
  for (auto [r, c] : {std::pair<tw::index_t, tw::index_t>{16384, 4096}, {8192, 8192}, {32768, 768}, {16384, 1000}}) {
    rows<float>(bench, device, r, c, "f32");
    rows<tw::f16>(bench, device, r, c, "f16");
    rows<tw::bf16>(bench, device, r, c, "bf16");
  }
}
