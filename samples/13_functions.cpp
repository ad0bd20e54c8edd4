// Lesson 13: functions. A piece of a kernel that is recorded once and called from several places, with tiles and
// scalars by value and several results; and tensors over memory that the program has already.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace tw = tileweave;

// Mean and inverse deviation of each row; lanes past the edge are in neither.
const auto moments = tw::function("moments", [](tw::Tile<float, 2> x, tw::Scalar<float> count, tw::Scalar<float> eps) {
  auto mean = tw::sum(x, 1, tw::keep_dims) / count;
  auto d = x - mean;
  return std::tuple(mean, tw::rsqrt(tw::sum(d * d, 1, tw::keep_dims) / count + eps));
});

// Two halves of each row, each normalized by itself.
const auto halves = tw::kernel("halves", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> cols) {
  auto row = tw::program_id(0);
  for (auto half : tw::range(2)) {
    auto v = tw::load(x, {row, half * cols}, {1, cols});
    auto [mean, scale] = moments(v, static_cast<float>(cols), 1e-5f);
    tw::store(y, {row, half * cols}, (v - mean) * scale);
  }
});

int main() {
  const tw::Device device = tw::Device::best();
  const int rows = 5, cols = 24;
  std::vector<float> values(rows * 2 * cols), result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));

  if (device.is_host()) {
    halves.launch(device.stream(), {rows}, tw::wrap(values, {rows, 2 * cols}, device),
                  tw::wrap(result, {rows, 2 * cols}, device), cols);
  } else {
    auto y = tw::Tensor<float>::empty(device, {rows, 2 * cols});
    halves.launch(device.stream(), {rows}, tw::Tensor<float>::from_host(device, {rows, 2 * cols}, values), y, cols);
    result = y.to_host();
  }

  for (std::size_t begin = 0; begin < values.size(); begin += cols) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < cols; ++c) mean += values[begin + c] / static_cast<double>(cols);
    for (std::size_t c = 0; c < cols; ++c) variance += std::pow(values[begin + c] - mean, 2) / cols;
    for (std::size_t c = 0; c < cols; ++c) {
      const double expected = (values[begin + c] - mean) / std::sqrt(variance + 1e-5);
      // A sum of 24 terms of size 1 and a few roundings, each within 2^-24.
      if (std::fabs(result[begin + c] - expected) > 40 * 0x1p-24) return std::puts("a half is wrong"), 1;
    }
  }
  std::printf("13_functions: right on %s\n", device.name().c_str());
}
