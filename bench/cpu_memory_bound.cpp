// CPU, f32: ours beside hand-written loops, oneDNN and a copy of the same bytes, all in one process and one race.
// `./dev bench` runs it; the table goes to bench/RESULTS.md with the machine it came from.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

#include "cpu_peers.h"
#include "timing.h"

namespace tw = tileweave;
using tw::bench::Contestant;

namespace {
const auto add_kernel = tw::kernel(
    "add", [](tw::View<const float, 1> a, tw::View<const float, 1> b, tw::View<float, 1> c, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      tw::store(c, {first}, tw::load(a, {first}, {block}) + tw::load(b, {first}, {block}));
    });

const auto gelu_kernel = tw::kernel(
    "gelu", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<bool> tanh_form, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      auto v = tw::load(x, {first}, {block});
      if (tanh_form) {
        tw::store(y, {first}, tw::gelu_tanh(v));
      } else {
        tw::store(y, {first}, tw::gelu(v));
      }
    });

const auto softmax_kernel =
    tw::kernel("softmax", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> block) {
      auto row = tw::program_id(0);
      auto v = tw::load(x, {row, 0}, {1, block});
      tw::Tile<float, 2> e = tw::exp(v - tw::max(v, 1, tw::keep_dims));
      tw::store(y, {row, 0}, e / tw::sum(e, 1, tw::keep_dims));
    });

const auto layer_norm_gelu_kernel = tw::kernel(
    "layer_norm_gelu", [](tw::View<const float, 2> x, tw::View<const float, 1> weight, tw::View<const float, 1> bias,
                          tw::View<float, 2> y, tw::Scalar<float> eps, tw::Const<int> block) {
      auto row = tw::program_id(0);
      auto cols = x.extent(1).to<float>();
      auto v = tw::load(x, {row, 0}, {1, block});
      auto centred = v - tw::sum(v, 1, tw::keep_dims) / cols;
      auto variance = tw::sum(centred * centred, 1, tw::keep_dims) / cols;
      auto w = tw::expand(tw::load(weight, {0}, {block}), 0);
      auto b = tw::expand(tw::load(bias, {0}, {block}), 0);
      tw::store(y, {row, 0}, tw::gelu_tanh(centred * tw::rsqrt(variance + eps) * w + b));
    });

struct Table {
  // Prints one case: every contestant's rate and its ratio to the copy and to ours.
  void add(const char* name, double bytes, std::vector<Contestant> all) {
    tw::bench::race(all, 11);
    const double ours = tw::bench::median(all.front().seconds);
    for (const Contestant& c : all) {
      const double s = tw::bench::median(c.seconds);
      std::printf("| %-22s | %-14s | %8.2f | %6.1f | %5.2f |\n", name, c.name.c_str(), s * 1e3, bytes / s / 1e9,
                  s / ours);
    }
  }
};

// The largest difference of the two results, printed where it is over the bound.
bool differs(const char* what, const float* a, const float* b, std::size_t n, double bound) {
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < n; i += 97) {
    const double d = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (d > worst) worst = d, at = i;
  }
  if (worst <= bound) return false;
  std::printf("%s differs from its peer: %g and %g at %zu\n", what, static_cast<double>(a[at]),
              static_cast<double>(b[at]), at);
  return true;
}
}  // namespace

int main() {
  const tw::Device device = tw::Device::cpu();
  const tw::Stream stream = device.stream();
  const std::size_t n = std::size_t{64} << 20, rows = 16384, cols = 1024;
  auto a = tw::random_normal<float>(device, {static_cast<tw::index_t>(n)}, 1);
  auto b = tw::random_normal<float>(device, {static_cast<tw::index_t>(n)}, 2);
  auto c = tw::Tensor<float>::empty(device, {static_cast<tw::index_t>(n)});
  auto d = tw::Tensor<float>::empty(device, {static_cast<tw::index_t>(n)});
  const auto* pa = static_cast<const float*>(a.data());
  const auto* pb = static_cast<const float*>(b.data());
  auto* pc = static_cast<float*>(c.data());
  auto* pd = static_cast<float*>(d.data());
  std::memset(pc, 1, n * 4);
  std::memset(pd, 1, n * 4);
  const int block = 4096;
  const tw::index_t grid = tw::cdiv(static_cast<tw::index_t>(n), block);

  std::printf("CPU, f32, %u threads; ratio = time / ours (over 1: ours is faster)\n\n",
              std::thread::hardware_concurrency());
  std::printf("| case | who | ms | GB/s | time / ours |\n|---|---|---|---|---|\n");
  Table table;
  table.add("add 64 Mi", 12.0 * static_cast<double>(n),
            {{"tileweave", [&] { add_kernel.launch(stream, {grid}, a, b, c, block); }, {}},
             {"hand-written", [&] { peer_add(pa, pb, pd, n); }, {}}});
  if (differs("add", pc, pd, n, 0)) return 1;
  for (bool tanh_form : {true, false}) {
    std::vector<Contestant> all{{"tileweave", [&] { gelu_kernel.launch(stream, {grid}, a, c, tanh_form, block); }, {}},
                                {"copy", [&] { peer_copy(pa, pd, n); }, {}}};
    if (peer_has_onednn()) all.push_back({"oneDNN", [&] { onednn_gelu(tanh_form, pa, pd, n); }, {}});
    table.add(tanh_form ? "GELU tanh 64 Mi" : "GELU erf 64 Mi", 8.0 * static_cast<double>(n), std::move(all));
    if (peer_has_onednn() && differs("GELU", pc, pd, n, 1e-5)) return 1;
  }
  const auto rows_i = static_cast<tw::index_t>(rows), cols_i = static_cast<tw::index_t>(cols);
  auto x = tw::random_normal<float>(device, {rows_i, cols_i}, 3);
  auto y = tw::Tensor<float>::empty(device, {rows_i, cols_i});
  auto w = tw::random_normal<float>(device, {cols_i}, 4);
  auto s = tw::random_normal<float>(device, {cols_i}, 5);
  const auto* px = static_cast<const float*>(x.data());
  auto* py = static_cast<float*>(y.data());
  const double bytes = 8.0 * static_cast<double>(rows * cols);
  std::vector<Contestant> soft{{"tileweave", [&] { softmax_kernel.launch(stream, {rows_i}, x, y, 1024); }, {}},
                               {"hand-written", [&] { peer_softmax(px, pd, rows, cols); }, {}},
                               {"copy", [&] { peer_copy(px, pd + rows * cols, rows * cols); }, {}}};
  if (peer_has_onednn()) soft.push_back({"oneDNN", [&] { onednn_softmax(px, pd, rows, cols); }, {}});
  table.add("softmax 16384x1024", bytes, std::move(soft));
  if (differs("softmax", py, pd, rows * cols, 1e-6)) return 1;
  const auto* pw = static_cast<const float*>(w.data());
  const auto* ps = static_cast<const float*>(s.data());
  std::vector<Contestant> norm{
      {"tileweave", [&] { layer_norm_gelu_kernel.launch(stream, {rows_i}, x, w, s, y, 1e-5f, 1024); }, {}},
      {"copy", [&] { peer_copy(px, pd + rows * cols, rows * cols); }, {}},
      {"hand-written", [&] { peer_layer_norm_gelu(px, pw, ps, pd, rows, cols); }, {}}};
  if (peer_has_onednn())
    norm.push_back({"oneDNN, 2 ops",
                    [&] {
                      onednn_layer_norm(px, pw, ps, pd + rows * cols, rows, cols);
                      onednn_gelu(true, pd + rows * cols, pd, rows * cols);
                    },
                    {}});
  table.add("LayerNorm+GELU", bytes, std::move(norm));
  if (differs("LayerNorm+GELU", py, pd, rows * cols, 1e-4)) return 1;
}
