// Lesson 6: a loop and a Var. Rows longer than a block are summed block by block; the Var keeps what earlier blocks put
// there.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>

namespace tw = tileweave;

const auto row_norm =
    tw::kernel("row_norm", [](tw::View<const float, 2> x, tw::View<float, 1> norm, tw::Const<int> block) {
      auto row = tw::program_id(0);
      tw::Var squares = tw::zeros<float>(1, block);
      for (auto c : tw::range(0, x.extent(1), block)) {
        auto v = tw::load(x, {row, c}, {1, block});
        squares += v * v;
      }
      tw::store(norm, {row}, tw::sqrt(tw::sum(squares, 1)));
    });

int main() {
  const tw::index_t rows = 64, cols = 10'001;
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {rows, cols}, 1);
  auto norm = tw::Tensor<float>::empty(device, {rows});

  row_norm.launch(device.stream(), {rows}, x, norm, 512);

  const auto hx = x.to_host(), hn = norm.to_host();
  double worst = 0;
  for (tw::index_t r = 0; r < rows; ++r) {
    double total = 0;
    for (tw::index_t c = 0; c < cols; ++c) total += std::pow(double(hx[static_cast<std::size_t>(r * cols + c)]), 2);
    worst = std::fmax(worst, std::fabs(hn[static_cast<std::size_t>(r)] / std::sqrt(total) - 1));
  }
  std::printf("06_loops: max relative error %.1e on %s\n", worst, device.name().c_str());
  return worst < 1e-6 ? 0 : 1;
}
