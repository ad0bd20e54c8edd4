// Lesson 10: debugging a kernel. Prints and assertions work on every device; on the CPU gdb stops at your own lines:
//   TILEWEAVE_DEVICE=cpu TILEWEAVE_DEBUG=full gdb --args ./10_debugging
//   (gdb) break running_mean    the kernel's name; or a line: break 10_debugging.cpp:22
//   (gdb) run
//   (gdb) next                  line by line
//   (gdb) print row             row = {0, 1, 2, ...}: the tile, under your name for it
// TILEWEAVE_DEVICE=interpret runs the kernel under the definition of the language, every access checked.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tileweave/tileweave.h>

namespace tw = tileweave;

// The mean of each row and of the rows before it.
const auto running_mean =
    tw::kernel("running_mean", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> cols) {
      tw::static_check(cols > 0, "a row has columns");
      tw::Var total = tw::zeros<float>(1, cols);
      for (auto r : tw::range(x.extent(0))) {
        auto row = tw::load(x, {r, 0}, {1, cols});
        auto seen = r.to<float>() + 1.0f;
        total += row;
        auto mean = total / seen;
        tw::device_assert(tw::is_finite(mean), "the mean is finite");
        tw::if_(r == 2, [&] { tw::device_print("mean", mean); });
        tw::store(y, {r, 0}, mean);
      }
    });

int main() {
  const tw::Device device = tw::Device::best();
  const int rows = 4, cols = 8;
  std::vector<float> input(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i);
  const auto x = tw::Tensor<float>::from_host(device, {rows, cols}, input);
  const auto y = tw::Tensor<float>::empty(device, {rows, cols});
  running_mean.launch(device.stream(), {1}, x, y, cols);
  const auto result = y.to_host();
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(r * cols + c);
      // Rows are 0 + c, 8 + c, 16 + c, ...: their mean is 4 r + c.
      if (result[i] != static_cast<float>(4 * r + c)) {
        std::printf("row %d column %d: %g\n", r, c, static_cast<double>(result[i]));
        return 1;
      }
    }
  }

  // A value that breaks the assertion: the error names this file, the line and the program.
  input[5] = INFINITY;
  const auto bad = tw::Tensor<float>::from_host(device, {rows, cols}, input);
  try {
    running_mean.launch(device.stream(), {1}, bad, y, cols);
    device.stream().synchronize();
    std::puts("the assertion did not fail");
    return 1;
  } catch (const tw::LaunchError& e) {
    std::printf("as expected:\n%s\n", e.what());
  }
  std::puts("ok");
}
