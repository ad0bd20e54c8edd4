// The corpus as fusion groups: values against the plain functions, host twin against the device bit for bit, gradients
// against dual numbers and differences.
#include <doctest/doctest.h>

#include "corpus.h"
#include "dual.h"
#include "on_device.h"

#include "corpus_test.fusion.h"

namespace {

namespace fused = tw::fused::corpus;
using oracle::Dual;

const std::vector<double> points{-100, -30.5, -5.1, -3, -2.5, -1,  -0.7, -0.25, -1e-3, 1e-3, 0.04,
                                 0.3,  0.5,   0.75, 1,  1.7,  2.9, 4.2,  19.5,  25,    88};
const std::vector<double> positive{1e-3, 0.002, 0.04, 0.05, 0.3, 0.45, 0.6, 0.85, 0.97, 1.3, 2.5, 7, 30};

template <class T>
std::vector<T> as(const std::vector<double>& v) {
  return std::vector<T>(v.begin(), v.end());
}
// Both compute in T with other libraries' transcendental functions, and cancellation may magnify their last bits.
template <class T>
bool close(T a, T b) {
  if (on_device::same(a, b)) return true;
  const double bound = (sizeof(T) == 4 ? 4e-6 : 2e-14);
  return std::fabs(static_cast<double>(a) - static_cast<double>(b)) <=
         bound * std::fmax(1.0, std::fabs(static_cast<double>(b)));
}

template <class T, class G, class F, class... P>
void check_values(const char* name, const G& group, const F& plain, const std::vector<P>&... x) {
  const std::vector<T> got = on_device::apply<T>(group, x...);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(name);
    CAPTURE(i);
    const T host = group(x[i]...);
    CHECK(on_device::same(host, got[i]));
    CHECK_MESSAGE(close(host, static_cast<T>(plain(x[i]...))), name, ": ", host, " and ", plain(x[i]...));
  }
}

template <class G, class F>
void check_gradient_1(const char* name, const G& group, const F& plain, const std::vector<double>& x) {
  const std::vector<double> got = on_device::apply<double>(tw::grad(group), x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Dual dual = plain(Dual(x[i], 1));
    const double h = 1e-5 * std::fmax(1, std::fabs(x[i]));
    const double difference = (group(x[i] + h) - group(x[i] - h)) / (2 * h);
    CHECK_MESSAGE(std::fabs(got[i] - dual.d) <= 1e-12 * std::fmax(1, std::fabs(dual.d)), name, " at ", x[i], ": ",
                  got[i], " and ", dual.d);
    const bool kink = std::fabs((group(x[i] + h) - group(x[i])) - (group(x[i]) - group(x[i] - h))) > 1e-3 * h;
    if (!kink)
      CHECK_MESSAGE(std::fabs(got[i] - difference) <= 1e-4 * std::fmax(1, std::fabs(difference)), name, " at ", x[i],
                    " by differences");
    const auto [y, slope] = tw::value_and_grad(group)(x[i]);
    CHECK(on_device::same(y, group(x[i])));
    CHECK(on_device::same(slope, got[i]));
  }
}

template <class G, class F>
void check_gradient_2(const char* name, const G& group, const F& plain, const std::vector<double>& x,
                      const std::vector<double>& y) {
  const std::vector<double> dx = on_device::apply<double>(tw::grad<0>(group), x, y),
                            dy = on_device::apply<double>(tw::grad<1>(group), x, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Dual by_x = plain(Dual(x[i], 1), Dual(y[i])), by_y = plain(Dual(x[i]), Dual(y[i], 1));
    CHECK_MESSAGE(std::fabs(dx[i] - by_x.d) <= 1e-12 * std::fmax(1, std::fabs(by_x.d)), name, " by 0 at ", x[i], ", ",
                  y[i], ": ", dx[i], " and ", by_x.d);
    CHECK_MESSAGE(std::fabs(dy[i] - by_y.d) <= 1e-12 * std::fmax(1, std::fabs(by_y.d)), name, " by 1 at ", x[i], ", ",
                  y[i], ": ", dy[i], " and ", by_y.d);
  }
}

std::vector<double> turned(std::vector<double> v) {
  std::rotate(v.begin(), v.begin() + 5, v.end());
  return v;
}

}  // namespace

#define ONE(name, x)                                                                              \
  check_values<float>(#name, fused::name, [](float a) { return corpus::name(a); }, as<float>(x)); \
  check_values<double>(#name, fused::name, [](double a) { return corpus::name(a); }, x);          \
  check_gradient_1(#name, fused::name, [](auto a) { return corpus::name(a); }, x);
#define TWO(name, x, y)                                                                                     \
  check_values<float>(                                                                                      \
      #name, fused::name, [](float a, float b) { return corpus::name(a, b); }, as<float>(x), as<float>(y)); \
  check_values<double>(#name, fused::name, [](double a, double b) { return corpus::name(a, b); }, x, y);    \
  check_gradient_2(#name, fused::name, [](auto a, auto b) { return corpus::name(a, b); }, x, y);

TEST_CASE("activations of one argument"){
    ONE(relu, points) ONE(leaky_relu, points) ONE(elu, points) ONE(selu, points) ONE(gelu_erf, points)
        ONE(gelu_tanh, points) ONE(quick_gelu, points) ONE(stable_sigmoid, points) ONE(silu, points)
            ONE(softplus, points) ONE(mish, points) ONE(hardswish, points) ONE(hardsigmoid, points)
                ONE(softsign, points) ONE(tanhshrink, points) ONE(squared_relu, points) ONE(log_cosh, points)}

TEST_CASE("losses, colours and distributions") {
  ONE(srgb_to_linear, positive)
  ONE(linear_to_srgb, positive)
  ONE(normal_cdf, points)
  TWO(celu, points, std::vector<double>(points.size(), 1.3))
  TWO(softshrink, points, std::vector<double>(points.size(), 0.6))
  TWO(huber, points, std::vector<double>(points.size(), 1.1))
  TWO(smooth_l1, points, turned(points))
  TWO(log_add_exp, points, turned(points))
  TWO(log_sum_exp_term, (std::vector<double>{-3, -1, 0.5}), (std::vector<double>{2, 0.1, 1}))
  TWO(hinge, points, turned(points))
  TWO(poisson_nll, positive, turned(positive))
  const std::vector<double> p{0.01, 0.2, 0.5, 0.8, 0.99, 1e-9}, target{0, 1, 0, 1, 1, 1};
  TWO(focal_loss, p, target)
  TWO(binary_cross_entropy_with_logits, points, turned(points))
}

TEST_CASE("structs: parameters field by field, results by their names") {
  std::vector<float> r, g, b;
  for (const float x : {0.0f, 0.2f, 0.9f, 1.0f}) {
    for (const float y : {0.0f, 0.5f, 0.9f}) {
      for (const float z : {0.0f, 0.2f, 1.0f}) r.push_back(x), g.push_back(y), b.push_back(z);
    }
  }
  const auto n = static_cast<int>(r.size());
  const auto tr = tw::Tensor<float>::from_host(on_device::device(), {n}, r),
             tg = tw::Tensor<float>::from_host(on_device::device(), {n}, g),
             tb = tw::Tensor<float>::from_host(on_device::device(), {n}, b);
  const auto hsv = fused::rgb_to_hsv(tr, tg, tb);
  const tw::Tensor<float> hue = hsv.hue, saturation = hsv.saturation;
  const tw::Tensor<float> light = fused::luminance(tr, tg, tb);
  const auto got_hue = hue.to_host(), got_saturation = saturation.to_host(), got_light = light.to_host();
  for (std::size_t i = 0; i < r.size(); ++i) {
    const corpus::Rgb c{r[i], g[i], b[i]};
    const corpus::Hsv plain = corpus::rgb_to_hsv(c);
    CHECK(on_device::same(got_hue[i], plain.hue));
    CHECK(on_device::same(got_saturation[i], plain.saturation));
    CHECK(close(got_light[i], corpus::luminance(c)));
    const auto twin = fused::rgb_to_hsv(r[i], g[i], b[i]);
    CHECK(on_device::same(twin.hue, plain.hue));
    CHECK(on_device::same(twin.value, plain.value));
    const auto back = fused::hsv_to_rgb(twin.hue, twin.saturation, twin.value);
    const corpus::Rgb plain_back = corpus::hsv_to_rgb(plain);
    CHECK(on_device::same(back.r, plain_back.r));
    CHECK(on_device::same(back.g, plain_back.g));
    CHECK(on_device::same(back.b, plain_back.b));
  }
}

TEST_CASE("prices: a formula with three inputs, and Newton's method with a break") {
  const std::vector<double> spot{80, 95, 100, 120, 100}, strike{100, 100, 100, 100, 140}, years{0.5, 1, 2, 0.1, 3};
  check_values<double>(
      "black_scholes_call", fused::black_scholes_call,
      [](double a, double b, double c) { return corpus::black_scholes_call(a, b, c); }, spot, strike, years);
  const std::vector<double> dx = on_device::apply<double>(tw::grad<0>(fused::black_scholes_call), spot, strike, years),
                            dt = on_device::apply<double>(tw::grad<2>(fused::black_scholes_call), spot, strike, years);
  for (std::size_t i = 0; i < spot.size(); ++i) {
    CHECK(dx[i] == doctest::Approx(corpus::black_scholes_call(Dual(spot[i], 1), Dual(strike[i]), Dual(years[i])).d)
                       .epsilon(1e-12));
    CHECK(dt[i] == doctest::Approx(corpus::black_scholes_call(Dual(spot[i]), Dual(strike[i]), Dual(years[i], 1)).d)
                       .epsilon(1e-12));
  }
  const std::vector<double> price{3.1, 10.2, 14, 22, 7.7};
  check_values<double>("implied_volatility", fused::implied_volatility, corpus::implied_volatility, price, spot,
                       strike);
  const std::vector<double> slope =
      on_device::apply<double>(tw::grad<0>(fused::implied_volatility), price, spot, strike);
  for (std::size_t i = 0; i < spot.size(); ++i) {
    const double h = 1e-4, difference = (corpus::implied_volatility(price[i] + h, spot[i], strike[i]) -
                                         corpus::implied_volatility(price[i] - h, spot[i], strike[i])) /
                                        (2 * h);
    CHECK(slope[i] == doctest::Approx(difference).epsilon(1e-3));
  }
}

TEST_CASE("quantisation, bits and loops of unknown length: equal bits everywhere") {
  std::vector<float> x{0.0f,    -0.0f, 1e-9f,  0.001f, -0.0156f, 0.017f,   0.43f, -1.0f,
                       1.0625f, 17.0f, 447.0f, 449.0f, -1e9f,    INFINITY, NAN};
  for (int i = 0; i < 200; ++i)
    x.push_back(std::ldexp(1.0f + 0.013f * static_cast<float>(i), i % 20 - 10) * (i % 3 == 0 ? -1.0f : 1.0f));
  check_values<std::uint8_t>("quantise_e4m3", fused::quantise_e4m3, corpus::quantise_e4m3, x);
  check_values<std::int8_t>("quantise_i8", fused::quantise_i8, corpus::quantise_i8,
                            std::vector<float>{0, 1.5f, 2.5f, -77, 1e6f, -1e6f},
                            std::vector<float>{1, 1, 1, 0.5f, 3, 3});
  std::vector<std::uint8_t> codes;
  for (int i = 0; i < 256; ++i) codes.push_back(static_cast<std::uint8_t>(i));
  check_values<float>("dequantise_e4m3", fused::dequantise_e4m3, corpus::dequantise_e4m3, codes);
  for (const std::uint8_t c : codes) {  // the language's own type agrees
    if ((c & 0x7f) != 0x7f) CHECK(fused::quantise_e4m3(fused::dequantise_e4m3(c)) == c);
  }
  check_values<float>("dequantise_i8", fused::dequantise_i8, corpus::dequantise_i8,
                      std::vector<std::int8_t>{-128, -1, 0, 127}, std::vector<float>{0.1f, 2, 3, 4});
  const std::vector<std::uint32_t> noise(x.size(), 0x9234u);
  CHECK(fused::to_bf16_bits(1.00390625f, 1, 0x9234u) ==
        corpus::to_bf16_bits(1.00390625f, corpus::Rounding::stochastic, 0x9234u));
  CHECK(fused::to_bf16_bits(1.00390625f, 0, 0u) == corpus::to_bf16_bits(1.00390625f, corpus::Rounding::nearest, 0u));
  check_values<float>("aces_tonemap", fused::aces_tonemap, corpus::aces_tonemap,
                      std::vector<float>{0, 0.1f, 0.5f, 2, 100});
  check_values<float>("reciprocal_root", fused::reciprocal_root, corpus::reciprocal_root,
                      std::vector<float>{0.01f, 0.5f, 2, 1e10f});
  check_values<double>("log_gamma", fused::log_gamma, corpus::log_gamma, std::vector<double>{0.5, 1, 2, 3.7, 12, 100});
  std::vector<std::uint32_t> n;
  for (std::uint32_t i = 0; i < 150; ++i) n.push_back(i * 2654435761u % (i < 100 ? 1000u : 4000000000u));
  check_values<int>("collatz_steps", fused::collatz_steps, corpus::collatz_steps, n);
  check_values<std::uint32_t>("hash32", fused::hash32, corpus::hash32, n);
  std::vector<float> re, im;
  for (int i = 0; i < 200; ++i)
    re.push_back(-2.0f + 0.015f * static_cast<float>(i)), im.push_back(0.7f - 0.007f * static_cast<float>(i));
  check_values<int>("mandelbrot", fused::mandelbrot, corpus::mandelbrot, re, im, std::vector<int>(re.size(), 100));
}

TEST_CASE("a float function of narrow floats computes in float and rounds once; tensors, expressions and literals") {
  const auto x = tw::random_normal<tw::f16>(on_device::device(), {1000}, 3);
  const tw::Tensor<tw::f16> y = fused::gelu_tanh(x);
  const auto hx = x.to_host(), hy = y.to_host();
  for (std::size_t i = 0; i < hx.size(); ++i) {
    const float exact = corpus::gelu_tanh(static_cast<float>(hx[i]));
    CHECK(std::fabs(static_cast<float>(hy[i]) - exact) <= 0.0005f * std::fabs(exact) + 1e-7f);
    CHECK(static_cast<float>(fused::gelu_tanh(hx[i])) == doctest::Approx(exact).epsilon(0.001));
  }
  const auto z = tw::random_normal<float>(on_device::device(), {333}, 4);
  const tw::Tensor<float> h = fused::huber(2.0f * z - 1.0f, 0.75f) + 1.0f;
  const auto hz = z.to_host(), hh = h.to_host();
  for (std::size_t i = 0; i < hz.size(); ++i) CHECK(close(hh[i], corpus::huber(2.0f * hz[i] - 1.0f, 0.75f) + 1.0f));
}

TEST_CASE("value and gradient of tensors are one launch") {
  const auto x = tw::random_normal<float>(on_device::device(), {1001}, 5);
  const auto before = tw::launch_count();
  const auto [y, slope] = tw::value_and_grad(fused::gelu_erf)(x);
  CHECK(tw::launch_count() == before + 1);
  const auto hx = x.to_host(), hy = y.to_host(), hs = slope.to_host();
  for (std::size_t i = 0; i < hx.size(); ++i) {
    CHECK(close(hy[i], corpus::gelu_erf(hx[i])));
    CHECK(hs[i] == doctest::Approx(corpus::gelu_erf(Dual(hx[i], 1)).d).epsilon(1e-5));
  }
}
