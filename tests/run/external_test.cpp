// Device functions of the user's: CUDA C++ and inline PTX on the GPU, their host twins elsewhere.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "reference.h"

namespace {

const auto mix = tw::cuda_function<float(float, float)>(
    "mix", "__device__ float mix(float a, float b) { return __fmaf_rn(a, 0.25f, b); }",
    [](float a, float b) { return std::fma(a, 0.25f, b); });
const auto low_bits = tw::inline_ptx<std::uint32_t(std::uint32_t, std::uint32_t)>(
    "and.b32 $0, $1, $2;", "=r,r,r", [](std::uint32_t a, std::uint32_t b) { return a & b; });
const auto no_twin = tw::cuda_function<float(float)>("no_twin", "__device__ float no_twin(float x) { return x; }");

const auto mixing = tw::kernel("mixing", [](tw::View<const float, 2> x, tw::View<const float, 1> bias,
                                            tw::View<float, 2> y, tw::Const<int> rows, tw::Const<int> cols) {
  auto at = tw::program_id(0) * rows;
  auto v = tw::load(x, {at, 0}, {rows, cols});
  auto b = tw::load(bias, {0}, {cols});
  auto m = mix(v, b);
  tw::store(y, {at, 0}, mix(tw::sum(m, 1, tw::keep_dims), m));
});

const auto masking = tw::kernel("masking", [](tw::View<const std::uint32_t, 1> x, tw::View<std::uint32_t, 1> y) {
  auto v = tw::load(x, {0}, {16});
  tw::store(y, {0}, low_bits(v, 0xff00u) + low_bits(v, v));
});

const auto without_twin = tw::kernel("without_twin", [](tw::View<const float, 1> x, tw::View<float, 1> y) {
  tw::store(y, {0}, no_twin(tw::load(x, {0}, {8})));
});

}  // namespace

TEST_CASE("a CUDA C++ function works on tiles of any shape, partial blocks included") {
  constexpr int rows = 5, cols = 20;
  const auto x = tensor<float>({rows, cols}, counting(rows * cols));
  const auto bias = tensor<float>({cols}, counting(cols));
  const auto y = tensor<float>({rows, cols}, std::vector<double>(rows * cols, -1));
  mixing.launch(device().stream(), {3}, x, bias, y, 2, 32);
  std::vector<double> expected;
  for (int r = 0; r < rows; ++r) {
    double sum = 0;  // all of these are multiples of 1/16 below 2^24: exact in float
    for (int c = 0; c < cols; ++c) sum += 0.25 * (cols * r + c) + c;
    for (int c = 0; c < cols; ++c) expected.push_back(0.25 * sum + 0.25 * (cols * r + c) + c);
  }
  CHECK(doubles(y) == expected);
}

TEST_CASE("inline PTX with integer operands, a literal among them") {
  std::vector<double> values;
  for (int i = 0; i < 13; ++i) values.push_back(i * 4321);
  const auto x = tensor<std::uint32_t>({13}, values), y = tensor<std::uint32_t>({13}, std::vector<double>(13, 0));
  masking.launch(device().stream(), {1}, x, y);
  std::vector<double> expected;
  for (int i = 0; i < 13; ++i) expected.push_back(((i * 4321) & 0xff00) + i * 4321);
  CHECK(doubles(y) == expected);
}

TEST_CASE("a function without a host twin is refused by name where no GPU runs it") {
  if (device().kind() == tw::DeviceKind::cuda) return;
  const auto x = tensor<float>({8}, counting(8)), y = tensor<float>({8}, counting(8));
  CHECK_THROWS_WITH_AS(
      without_twin.launch(device().stream(), {1}, x, y),
      doctest::Contains("device function 'no_twin' has no host twin, so only a GPU can run this kernel"),
      tw::LaunchError);
}
