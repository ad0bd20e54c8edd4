// Lesson 9: ops that look along the lanes of a tile: scans, sorts, and a reduction with a function of one's own.
#include <tileweave/tileweave.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace tw = tileweave;

const auto ranks = tw::kernel(
    "ranks", [](tw::View<const float, 2> x, tw::View<float, 2> sums, tw::View<int, 2> order, tw::Const<int> n) {
      auto row = tw::program_id(0);
      auto v = tw::load(x, {row, 0}, {1, n});
      tw::store(sums, {row, 0}, tw::cumsum(v, 1));
      tw::store(order, {row, 0}, tw::argsort(v, 1, tw::descending));
    });

// log(sum(exp(v))) as one pass: pairs of the largest so far and the sum scaled to it.
const auto log_sum_exp =
    tw::kernel("log_sum_exp", [](tw::View<const float, 2> x, tw::View<float, 1> y, tw::Const<int> n) {
      auto row = tw::program_id(0);
      auto v = tw::load(x, {row, 0}, {1, n});
      const auto [top, total] = tw::reduce(std::tuple(v, tw::full_like(v, 1.0f)), 1, [](const auto& a, const auto& b) {
        const auto& [ma, sa] = a;
        const auto& [mb, sb] = b;
        auto m = tw::maximum(ma, mb);
        return std::tuple(m, sa * tw::exp(ma - m) + sb * tw::exp(mb - m));
      });
      tw::store(y, {row}, top + tw::log(total));
    });

int main() {
  const tw::index_t rows = 32, cols = 1000;  // no power of two: the lanes past the row take no part
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {rows, cols}, 1);
  auto sums = tw::Tensor<float>::empty(device, {rows, cols});
  auto order = tw::Tensor<int>::empty(device, {rows, cols});
  auto lse = tw::Tensor<float>::empty(device, {rows});
  ranks.launch(device.stream(), {rows}, x, sums, order, 1024);
  log_sum_exp.launch(device.stream(), {rows}, x, lse, 1024);

  const auto hx = x.to_host(), hs = sums.to_host(), hl = lse.to_host();
  const auto ho = order.to_host();
  double worst = 0;
  bool sorted = true;
  for (tw::index_t r = 0; r < rows; ++r) {
    double sum = 0, total = 0;
    for (tw::index_t c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(r * cols + c);
      sum += hx[i];
      total += std::exp(static_cast<double>(hx[i]));
      worst = std::fmax(worst, std::fabs(hs[i] - sum) / 100);
      if (c > 0)
        sorted = sorted &&
                 hx[static_cast<std::size_t>(r * cols + ho[i - 1])] >= hx[static_cast<std::size_t>(r * cols + ho[i])];
    }
    worst = std::fmax(worst, std::fabs(hl[static_cast<std::size_t>(r)] - std::log(total)));
  }
  std::printf("09_along_an_axis: largest error %.1e, order %s on %s\n", worst, sorted ? "right" : "wrong",
              device.name().c_str());
  return worst < 1e-5 && sorted ? 0 : 1;
}
