// Fusion groups: the same values on the host, in a kernel and on tensors; derivatives of every op against differences.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <string>

#include "reference.h"

namespace {

const auto fused_gelu = tw::fusion_group(
    "fused_gelu", [](auto x) { return x * 0.5f * (1.0f + tw::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); });
const auto clip =
    tw::fusion_group("clip", [](auto a, auto lo, auto hi) { return tw::where(a < lo, lo, tw::where(a > hi, hi, a)); });
const auto step = tw::fusion_group("step", [](auto a) { return tw::where(a > 0, 1, 0); });
const auto one = tw::fusion_group("one", [](auto) { return 1; });

// Where the derivative of op `name` is compared: inside its domain and away from its jumps.
std::vector<double> points(const std::string& name) {
  if (name == "asin" || name == "acos" || name == "atanh") return {-0.9, -0.3, 0.2, 0.8};
  if (name == "acosh") return {1.5, 2.5, 10};
  if (name == "log1p") return {-0.5, 0.3, 4};
  if (name.starts_with("log")) return {0.1, 0.7, 1.3, 20};
  if (name == "sqrt" || name == "rsqrt") return {0.1, 0.7, 1.3, 20};
  return {-2.3, -0.7, 0.3, 1.1, 2.9};
}

template <class Op>
void check_gradient(const Op& op, const std::string& name) {
  const auto x = points(name);
  const auto d = tw::grad(op);
  const tw::Tensor<double> on_device = d(tensor<double>({static_cast<int>(x.size())}, x));
  const auto got = doubles(on_device);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double h = 1e-5, difference = (op(x[i] + h) - op(x[i] - h)) / (2 * h);
    CAPTURE(name);
    CAPTURE(x[i]);
    CHECK(std::fabs(got[i] - difference) < 1e-6 * std::fmax(1, std::fabs(difference)));
    CHECK(std::fabs(d(x[i]) - got[i]) <= 1e-14 * std::fmax(1, std::fabs(got[i])));
  }
}

template <class Op>
void check_gradient_of_two(const Op& op, const std::string& name) {
  for (const double a : {0.3, 1.7, 2.9}) {
    for (const double b : {0.4, 1.3, 2.2}) {
      const double h = 1e-5;
      CAPTURE(name);
      CHECK(tw::grad<0>(op)(a, b) == doctest::Approx((op(a + h, b) - op(a - h, b)) / (2 * h)).epsilon(1e-6));
      CHECK(tw::grad<1>(op)(a, b) == doctest::Approx((op(a, b + h) - op(a, b - h)) / (2 * h)).epsilon(1e-6));
    }
  }
}

template <int arity, class Op>
void check_row(const Op& op, const std::string& name) {
  if constexpr (arity == 1) check_gradient(op, name);
  if constexpr (arity == 2) check_gradient_of_two(op, name);
}

}  // namespace

TEST_CASE("the derivative of every float op is what differences say") {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text)                                 \
  if constexpr (tw::ir::OpTypes::types == tw::ir::OpTypes::Float || tw::ir::OpTypes::types == tw::ir::OpTypes::Num) \
    check_row<arity>(tw::id, #id);
#include "tileweave/jit/ir/ops.def"
}

TEST_CASE("a group has one value: host, kernel, tensor") {
  const auto kernel = tw::kernel("group", [](tw::View<const float, 1> x, tw::View<float, 1> y) {
    auto i = tw::program_id(0) * 128;
    tw::store(y, {i}, fused_gelu(tw::load(x, {i}, {128})));
  });
  const auto x = tw::random_normal<float>(device(), {1000}, 5), y = tw::Tensor<float>::empty(device(), {1000});
  kernel.launch(device().stream(), {8}, x, y);
  const tw::Tensor<float> z = fused_gelu(x);
  const auto hx = x.to_host(), hy = y.to_host(), hz = z.to_host();
  for (std::size_t i = 0; i < hx.size(); ++i) {
    const float expected = fused_gelu(hx[i]);
    CHECK(std::fabs(hy[i] - expected) < 3e-7f);
    CHECK(hz[i] == hy[i]);
  }
}

TEST_CASE("groups of several arguments, of literals only, of constants") {
  CHECK(clip(2.0f, -1.0f, 1.0f) == 1.0f);
  const auto x = tensor<float>({5}, {-2, -0.5, 0, 0.5, 2});
  CHECK(doubles(tw::Tensor<float>(clip(x, -1, 1.0))) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(doubles(tw::Tensor<float>(tw::grad(clip)(x, -1, 1.0))) == std::vector<double>{0, 1, 1, 1, 0});
  CHECK(doubles(tw::Tensor<float>(tw::grad<1>(clip)(x, -1, 1.0))) == std::vector<double>{1, 0, 0, 0, 0});
  CHECK(doubles(tw::Tensor<float>(step(x))) == std::vector<double>{0, 0, 0, 1, 1});
  CHECK(doubles(tw::Tensor<float>(one(x))) == std::vector<double>{1, 1, 1, 1, 1});
  CHECK(doubles(tw::Tensor<float>(tw::grad(step)(x))) == std::vector<double>{0, 0, 0, 0, 0});
  CHECK(doubles(tw::Tensor<float>(tw::grad(tw::identity)(x))) == std::vector<double>{1, 1, 1, 1, 1});
  CHECK(doubles(tw::Tensor<float>(tw::leaky_relu(x, 0.5f))) == std::vector<double>{-1, -0.25, 0, 0.5, 2});
  CHECK(doubles(tw::Tensor<float>(tw::clamp(x, -1, 1))) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
}

TEST_CASE("second derivatives, and a derivative that is safe where the branch not taken is infinite") {
  const auto cube = tw::fusion_group("cube", [](auto v) { return v * v * v; });
  CHECK(tw::grad(tw::grad(cube))(2.0) == 12);
  CHECK(tw::grad(tw::grad(tw::grad(cube)))(2.0) == 6);
  const auto safe =
      tw::fusion_group("safe", [](auto v) { return tw::where(v > 0, tw::sqrt(tw::where(v > 0, v, 1)), 0); });
  CHECK(tw::grad(safe)(0.0) == 0);
  CHECK(tw::grad(safe)(4.0) == 0.25);
}

TEST_CASE("host values follow the language's meaning") {
  CHECK(tw::cdiv(7, 2) == 4);
  static_assert(tw::cdiv(1000003L, 1024) == 977);
  CHECK(tw::floor_div(-7, 2) == -4);
  CHECK(tw::floor_mod(-7, 2) == 1);
  CHECK(tw::div(1, 0) == 0);
  CHECK(tw::rem(5, 0) == 5);
  CHECK(std::isnan(tw::maximum(1.0f, NAN)));
  CHECK(tw::fmax(1.0f, NAN) == 1.0f);
  CHECK(tw::where(true, 1, 2.5) == 1.0);
  static_assert(std::is_same_v<decltype(tw::exp(1)), double>);
  static_assert(std::is_same_v<decltype(tw::exp(tw::f16(1.0f))), tw::f16>);
  CHECK(static_cast<float>(tw::exp(tw::f16(0.0f))) == 1.0f);
}
