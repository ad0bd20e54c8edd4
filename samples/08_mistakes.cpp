// Lesson 8: mistakes. Each is an exception that names your line, both sides, and what to do; the next launch works.
#include <tileweave/tileweave.h>

#include <cstdio>
#include <string>

namespace tw = tileweave;

const auto mismatched =
    tw::kernel("mismatched", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> block) {
      auto whole = tw::load(x, {0}, {block});
      auto half = tw::load(x, {0}, {block / 2});
      tw::store(y, {0}, whole + half);
    });

int main() {
  const tw::Device device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {64}, 1);
  auto y = tw::Tensor<float>::empty(device, {64});
  bool caught = false;
  try {
    mismatched.launch(device.stream(), {1}, x, y, 64);
  } catch (const tw::RecordError& e) {
    std::printf("%s\n", e.what());
    caught = std::string(e.what()).find("08_mistakes.cpp") != std::string::npos;
  }
  tw::Tensor<float> z = x + x;  // nothing was lost
  return caught && z.to_host()[0] == 2 * x.to_host()[0] ? 0 : 1;
}
