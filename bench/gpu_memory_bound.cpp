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

// Composite GELU as a user writes it.
template <class T>
const auto fused_gelu = tw::kernel("fused_gelu", [](tw::View<const T, 1> x, tw::View<T, 1> y, tw::Const<int> block) {
  auto first = tw::program_id(0) * block;
  auto v = tw::load(x, {first}, {block}).template to<float>();
  auto g = v * 0.5f * (1.0f + tw::tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
  tw::store(y, {first}, g.template to<T>());
});

const auto dequantise = tw::kernel("dequantise", [](tw::View<const std::int8_t, 2> q, tw::View<const float, 1> scale,
                                                    tw::View<tw::f16, 2> y, tw::Const<int> block) {
  auto row = tw::program_id(0);
  auto at = tw::program_id(1) * block;
  auto s = tw::expand(tw::load(scale, {row}, {1}), 1);
  tw::store(y, {row, at}, (tw::load(q, {row, at}, {1, block}).to<float>() * s).to<tw::f16>());
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
tw::Tensor<T> random_tensor(tw::Device device, tw::index_t n, std::uint64_t seed) {
  auto a = tw::random_normal<T>(device, {1 << 20}, seed);
  auto x = tw::Tensor<T>::zeros(device, {n});
  for (tw::index_t at = 0; at < n; at += 1 << 20) {  // random values: zeros run faster than real data
    const tw::index_t end = std::min<tw::index_t>(n, at + (1 << 20));
    x.slice(0, at, end).copy_from(a.slice(0, 0, end - at));
  }
  return x;
}

// Element-wise kernels over n elements; every base is `shift` elements past an aligned one.
template <class T>
void flat(Bench& bench, tw::Device device, tw::index_t n, tw::index_t shift, const char* dtype, const char* what) {
  const auto shifted = [&](const tw::Tensor<T>& t) { return t.slice(0, shift, shift + n); };
  auto x = shifted(random_tensor<T>(device, n + shift, 1)), b = shifted(random_tensor<T>(device, n + shift, 2)),
       y = shifted(tw::Tensor<T>::zeros(device, {n + shift}));
  const double bytes = double(n) * sizeof(T);
  const int block = 1024;
  const tw::index_t grid = tw::cdiv(n, block);
  const tw::Stream s = bench.stream();
  bench.line("add", dtype, what, 3 * bytes, [&] { add_kernel<T>.launch(s, {grid}, x, b, y, block); });
  bench.line("gelu exact", dtype, what, 2 * bytes, [&] { gelu_kernel<T>.launch(s, {grid}, x, y, false, block); });
  bench.line("gelu tanh", dtype, what, 2 * bytes, [&] { gelu_kernel<T>.launch(s, {grid}, x, y, true, block); });
  bench.line("fused gelu", dtype, what, 2 * bytes, [&] { fused_gelu<T>.launch(s, {grid}, x, y, block); });
}

template <class T>
void rows(Bench& bench, tw::Device device, tw::index_t r, tw::index_t c, const char* dtype) {
  auto x = random_tensor<T>(device, r * c, 1).reshape({r, c});
  auto w = tw::random_normal<T>(device, {c}, 2), g = tw::random_normal<T>(device, {c}, 3);
  const std::string shape = std::to_string(r) + "x" + std::to_string(c);
  const double bytes = 2.0 * double(r * c) * sizeof(T);
  bench.line("softmax", dtype, shape, bytes, [&] { auto y = tw::ops::softmax(x, 1); });
  bench.line("RMSNorm", dtype, shape, bytes, [&] { auto y = tw::ops::rms_norm(x, w, 1e-5f); });
  bench.line("LayerNorm", dtype, shape, bytes, [&] { auto y = tw::ops::layer_norm(x, w, g, 1e-5f); });
  bench.line("LayerNorm+GELU", dtype, shape, bytes,
             [&] { auto y = tw::ops::layer_norm(x, w, g, 1e-5f, tw::ops::gelu); });
}

// Operands that are not walked as they lie.
template <class T>
void strided(Bench& bench, tw::Device device, const char* dtype) {
  const tw::index_t n = 8192;
  const double bytes = double(n * n) * sizeof(T);
  auto x = random_tensor<T>(device, n * n, 1).reshape({n, n}), y = random_tensor<T>(device, n * n, 2).reshape({n, n});
  auto out = tw::Tensor<T>::zeros(device, {n, n});
  bench.line("x^T + y", dtype, "8192x8192", 3 * bytes, [&] { out = x.transpose() + y; });
  auto wide = random_tensor<T>(device, n * (n + 64), 3).reshape({n, n + 64}).slice(1, 8, 8 + n);
  bench.line("sliced add", dtype, "8192x8192", 3 * bytes, [&] { out = wide + y; });
  auto row = random_tensor<T>(device, n, 4);
  bench.line("broadcast add", dtype, "8192x8192", 2 * bytes, [&] { out = x + row; });
  auto image = random_tensor<T>(device, 64 * 256 * 56 * 56, 5).reshape({64, 256, 56, 56});
  auto nhwc = tw::Tensor<T>::zeros(device, {64, 56, 56, 256});
  bench.line("NCHW to NHWC, + 1", dtype, "64x256x56x56", 2.0 * 64 * 256 * 56 * 56 * sizeof(T),
             [&] { nhwc = image.permute({0, 2, 3, 1}) + T(1.0f); });
}

template <class T>
void all(Bench& bench, tw::Device device, const char* dtype) {
  const tw::index_t n = tw::index_t{1} << 28;
  flat<T>(bench, device, n, 0, dtype, "2^28");
  flat<T>(bench, device, (n >> 1) + 3, 0, dtype, "2^27+3");
  flat<T>(bench, device, n >> 1, 1, dtype, "2^27, base + 1");
  const std::pair<tw::index_t, tw::index_t> shapes[] = {{16384, 4096}, {8192, 8192}, {32768, 768}, {16384, 4097},
                                                        {16384, 1000}, {4096, 1024}, {128, 131072}};
  for (auto [r, c] : shapes) rows<T>(bench, device, r, c, dtype);
  strided<T>(bench, device, dtype);
}
}  // namespace

int main() {
  if (tw::Device::count_cuda() == 0) return std::printf("no GPU: %s\n", tw::Device::why_no_cuda().c_str()), 1;
  const tw::Device device = tw::Device::cuda(0);
  Bench bench(device);
  std::printf("%s, driver %d\n\n", device.name().c_str(), device.facts().driver_version);
  std::printf("| op | dtype | shape | ms | GB/s | copy ms | %% of copy |\n|---|---|---|---|---|---|---|\n");
  all<tw::f16>(bench, device, "f16");
  all<tw::bf16>(bench, device, "bf16");
  all<float>(bench, device, "f32");
  const tw::index_t r = 16384, c = 8192;
  auto q = tw::Tensor<std::int8_t>::zeros(device, {r, c});
  auto scale = tw::random_normal<float>(device, {r}, 1);
  auto y = tw::Tensor<tw::f16>::zeros(device, {r, c});
  bench.line("dequantise", "i8 to f16", "16384x8192", 3.0 * double(r * c),
             [&] { dequantise.launch(bench.stream(), {r, c / 2048}, q, scale, y, 2048); });
}
