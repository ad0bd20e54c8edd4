// Gradients where control flow makes them hard: untaken branches, loops, several inputs and results, groups within
// groups.
#include <doctest/doctest.h>

#include <cmath>

#include "on_device.h"

namespace slopes {

TILEWEAVE_FUSION_GROUP double guarded_root(double x) {
  if (x > 0) return std::sqrt(x);
  return x;
}
TILEWEAVE_FUSION_GROUP double guarded_exp(double x) { return x <= 0 ? std::exp(x) : 1 + x; }
TILEWEAVE_FUSION_GROUP double guarded_product(double x) { return x == 0 ? 0 : x * std::sqrt(x); }
TILEWEAVE_FUSION_GROUP double shared(double x) {
  const double r = 1 / x;  // infinite at 0, used on one side only
  double y = x;
  if (x != 0) y = r * r + std::log(x);
  return y;
}
TILEWEAVE_FUSION_GROUP double power_loop(double x, int n) {
  double y = 1;
  for (int i = 0; i < n; ++i) y *= x;
  return y;
}
TILEWEAVE_FUSION_GROUP double newton(double x) {
  double y = x > 1 ? x : 1;
  while (std::fabs(y * y - x) > 1e-13 * x) y = 0.5 * (y + x / y);
  return y;
}
TILEWEAVE_FUSION_GROUP double nested(double x, double y) {
  double s = 0;
  for (int i = 0; i < 3; ++i) {
    double t = y;
    while (t > 1) {
      t *= x;
      if (s > 50) break;
    }
    s += t * (i + 1);
  }
  return s;
}
struct Polar {
  double radius, angle;
};
TILEWEAVE_FUSION_GROUP Polar polar(double x, double y) { return {std::sqrt(x * x + y * y), std::atan2(y, x)}; }
TILEWEAVE_FUSION_GROUP double larger(double x, double y) { return std::fmax(x * x, 3 * y); }

}  // namespace slopes

#include "gradient_test.fusion.h"

namespace {

namespace f = tw::fused::slopes;
using Doubles = std::vector<double>;

template <class G>
double difference(const G& g, double x) {
  return (g(x + 1e-6) - g(x - 1e-6)) / 2e-6;
}

}  // namespace

TEST_CASE("a branch not taken contributes nothing, although its slope there is infinite or not a number") {
  CHECK(on_device::apply<double>(tw::grad(f::guarded_root), Doubles{-1, -4, 4, 0}) == Doubles{1, 1, 0.25, 1});
  CHECK(on_device::apply<double>(tw::grad(f::guarded_exp), Doubles{100, 1000, 0}) == Doubles{1, 1, 1});
  CHECK(on_device::apply<double>(tw::grad(f::guarded_product), Doubles{0, 4}) == Doubles{0, 3});
  CHECK(on_device::apply<double>(tw::grad(f::shared), Doubles{0, 1, 2}) == Doubles{1, -1, -2.0 / 8 + 0.5});
  // The same written as lambdas.
  const auto root = tw::fusion_group("root", [](auto x) { return tw::where(x > 0, tw::sqrt(x), x); });
  const auto product = tw::fusion_group("product", [](auto x) { return tw::where(x == 0, 0, x * tw::sqrt(x)); });
  const auto clipped =
      tw::fusion_group("clipped", [](auto x) { return tw::relu(tw::log(x)) + tw::fmax(0.0, tw::sqrt(x)); });
  CHECK(on_device::apply<double>(tw::grad(root), Doubles{-1, -4, 4}) == Doubles{1, 1, 0.25});
  CHECK(on_device::apply<double>(tw::grad(product), Doubles{0, 4}) == Doubles{0, 3});
  CHECK(on_device::apply<double>(tw::grad(clipped), Doubles{-1}) == Doubles{0});
  CHECK(tw::grad(root)(-1.0) == 1);
}

TEST_CASE("equal operands of a maximum get half each") {
  CHECK(tw::grad<0>(f::larger)(3.0, 3.0) == 3);
  CHECK(tw::grad<1>(f::larger)(3.0, 3.0) == 1.5);
  CHECK(tw::grad<0>(f::larger)(3.0, 1.0) == 6);
  CHECK(tw::grad<1>(f::larger)(3.0, 1.0) == 0);
}

TEST_CASE("loops of unknown length carry their tangents") {
  const std::vector<int> n{0, 1, 2, 5, 3};
  const Doubles x{1.5, 2, -3, 1.1, 0};
  const Doubles slope = on_device::apply<double>(tw::grad(f::power_loop), x, n);
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(slope[i] == doctest::Approx(n[i] == 0 ? 0 : n[i] * std::pow(x[i], n[i] - 1)));
  const Doubles roots = on_device::apply<double>(tw::grad(f::newton), Doubles{2, 9, 0.3, 1e6});
  CHECK(roots[0] == doctest::Approx(0.5 / std::sqrt(2.0)).epsilon(1e-9));
  CHECK(roots[1] == doctest::Approx(1.0 / 6).epsilon(1e-9));
  CHECK(roots[3] == doctest::Approx(0.5e-3).epsilon(1e-9));
  const Doubles a{0.5, 0.9, 0.7}, b{3, 5, 0.5};
  const Doubles da = on_device::apply<double>(tw::grad<0>(f::nested), a, b),
                db = on_device::apply<double>(tw::grad<1>(f::nested), a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(
        da[i] ==
        doctest::Approx((slopes::nested(a[i] + 1e-7, b[i]) - slopes::nested(a[i] - 1e-7, b[i])) / 2e-7).epsilon(1e-5));
    CHECK(
        db[i] ==
        doctest::Approx((slopes::nested(a[i], b[i] + 1e-7) - slopes::nested(a[i], b[i] - 1e-7)) / 2e-7).epsilon(1e-5));
  }
}

TEST_CASE("several inputs and results; second derivatives; groups within groups") {
  const auto [dr, da] = tw::grad<1>(f::polar)(3.0, 4.0);
  CHECK(dr == doctest::Approx(0.8));
  CHECK(da == doctest::Approx(3.0 / 25));
  const auto [y, by_x, by_y] = tw::value_and_grad(f::larger)(3.0, 1.0);
  CHECK(y == 9);
  CHECK(by_x == 6);
  CHECK(by_y == 0);
  CHECK(tw::grad(tw::grad(f::guarded_root))(4.0) == doctest::Approx(-0.25 * std::pow(4.0, -1.5)));
  CHECK(tw::grad(tw::grad(f::newton))(4.0) == doctest::Approx(-0.25 * std::pow(4.0, -1.5)).epsilon(1e-6));
  const auto outer = tw::fusion_group("outer", [](auto x) { return tw::exp(0.1 * x) * f::guarded_root(x * x - 1.0); });
  for (const double x : {2.0, 0.5, -3.0})
    CHECK(tw::grad(outer)(x) == doctest::Approx(difference(outer, x)).epsilon(1e-6));
  const Doubles xs{2, 0.5, -3};
  const Doubles device = on_device::apply<double>(tw::grad(outer), xs);
  for (std::size_t i = 0; i < xs.size(); ++i)
    CHECK(device[i] == doctest::Approx(tw::grad(outer)(xs[i])).epsilon(1e-14));
}

TEST_CASE("value and gradient in a kernel and on tensors; several expressions in one launch") {
  const auto kernel = tw::kernel("both", [](tw::View<const double, 1> x, tw::View<double, 2> out, tw::Const<int> n) {
    const auto [y, slope] = tw::value_and_grad(f::guarded_root)(tw::load(x, {0}, {n}));
    tw::store(out, {0, 0}, tw::expand(y, 0));
    tw::store(out, {1, 0}, tw::expand(slope, 0));
  });
  const auto x = tw::Tensor<double>::from_host(on_device::device(), {4}, Doubles{4, 9, -1, 16});
  const auto out = tw::Tensor<double>::empty(on_device::device(), {2, 4});
  kernel.launch(on_device::device().stream(), {1}, x, out, 4);
  CHECK(out.to_host() == Doubles{2, 3, -1, 4, 0.25, 1.0 / 6, 1, 0.125});
  const auto before = tw::launch_count();
  const auto [y, dx, z] = tw::evaluate(f::guarded_root(x), 2.0 * tw::grad(f::guarded_root)(x), x + x);
  CHECK(tw::launch_count() == before + 1);
  CHECK(y.to_host() == Doubles{2, 3, -1, 4});
  CHECK(dx.to_host() == Doubles{0.5, 1.0 / 3, 2, 0.25});
  CHECK(z.to_host() == Doubles{8, 18, -2, 32});
  const auto gelu = tw::value_and_grad(tw::gelu)(x);
  CHECK(std::get<1>(gelu).to_host()[2] == doctest::Approx(tw::grad(tw::gelu)(-1.0)));
}
