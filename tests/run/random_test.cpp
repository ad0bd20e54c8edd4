// Philox in kernels: Random123's published vectors, an independent reference, moments, and what the forms promise.
// Run on the device that TILEWEAVE_DEVICE names: the references are exact, so every device gives the same bits.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>

#include "reference.h"

namespace {

using Words = std::array<std::uint32_t, 4>;

// Philox4x32-10 in 64-bit arithmetic, from the paper's description (see dsl/random.h).
Words philox(Words c, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

const auto generate = tw::kernel("generate", [](tw::View<const std::uint32_t, 1> in, tw::View<std::uint32_t, 1> out) {
  const auto word = [&](int i) { return tw::load(in, {i}, {1}); };
  const auto key = [&](int i) { return tw::sum(tw::load(in, {i}, {1}), 0); };
  const auto r = tw::philox4x32<1>({word(0), word(1), word(2), word(3)}, key(4), key(5));
  for (int i = 0; i < 4; ++i) tw::store(out, {i}, r[static_cast<std::size_t>(i)]);
});

const auto fill =
    tw::kernel("fill", [](tw::View<std::uint32_t, 2> bits, tw::View<float, 2> uniform, tw::View<float, 2> normal,
                          tw::View<int, 1> dice, tw::Scalar<std::int64_t> seed, tw::Const<int> block) {
      auto at = tw::program_id(0) * block;
      auto i = tw::arange<std::int64_t>(block) + at;
      auto w = tw::random_bits4(seed, i);
      auto u = tw::rand4(seed, i);
      auto g = tw::randn4(seed, i);
      for (int k = 0; k < 4; ++k) {
        tw::store(bits, {k, at}, tw::expand(w[static_cast<std::size_t>(k)], 0));
        tw::store(uniform, {k, at}, tw::expand(u[static_cast<std::size_t>(k)], 0));
        tw::store(normal, {k, at}, tw::expand(g[static_cast<std::size_t>(k)], 0));
      }
      tw::store(dice, {at}, tw::randint(seed, i, -3, 4));
    });

}  // namespace

TEST_CASE("the known answers of Random123 for Philox4x32-10") {
  // kat_vectors of Random123 (D. E. Shaw Research): counter, key, result.
  const std::vector<std::vector<std::uint32_t>> vectors = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
       0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
       0x24126ea1}};
  for (const auto& v : vectors) {
    const auto in = tw::Tensor<std::uint32_t>::from_host(device(), {6}, std::vector(v.begin(), v.begin() + 6));
    const auto out = tw::Tensor<std::uint32_t>::zeros(device(), {4});
    generate.launch(device().stream(), {1}, in, out);
    CHECK(out.to_host() == std::vector(v.begin() + 6, v.end()));
    const Words r = philox({v[0], v[1], v[2], v[3]}, v[4], v[5]);
    CHECK(std::vector(r.begin(), r.end()) == std::vector(v.begin() + 6, v.end()));
  }
}

TEST_CASE("bits, uniforms, normals and integers against the reference") {
  constexpr int n = 1000;
  const std::int64_t seed = 0x123456789abcdefLL;
  const auto bits = tw::Tensor<std::uint32_t>::zeros(device(), {4, n});
  const auto uniform = tw::Tensor<float>::zeros(device(), {4, n}), normal = tw::Tensor<float>::zeros(device(), {4, n});
  const auto dice = tw::Tensor<int>::zeros(device(), {n});
  fill.launch(device().stream(), {tw::cdiv(n, 128)}, bits, uniform, normal, dice, seed, 128);
  const auto b = bits.to_host();
  const auto u = uniform.to_host(), g = normal.to_host();
  const auto d = dice.to_host();
  int wrong_bits = 0, wrong_uniform = 0, wrong_dice = 0;
  double worst_normal = 0, mean = 0, square = 0;
  for (int i = 0; i < n; ++i) {
    const Words w = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, static_cast<std::uint32_t>(seed),
                           static_cast<std::uint32_t>(seed >> 32));
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t at = k * n + static_cast<std::size_t>(i);
      wrong_bits += b[at] != w[k];
      wrong_uniform += static_cast<double>(u[at]) != static_cast<double>(w[k] >> 8) / 16777216.0;
      const std::size_t pair = k / 2 * 2;
      const double radius = std::sqrt(-2 * std::log(((w[pair] >> 8) + 1) / 16777216.0));
      const double angle = 2 * std::acos(-1.0) * (w[pair + 1] >> 8) / 16777216.0;
      const double expected = radius * (k % 2 == 0 ? std::cos(angle) : std::sin(angle));
      worst_normal = std::fmax(worst_normal, std::fabs(static_cast<double>(g[at]) - expected));
      mean += static_cast<double>(g[at]) / (4 * n);
      square += static_cast<double>(g[at]) * static_cast<double>(g[at]) / (4 * n);
    }
    wrong_dice += d[static_cast<std::size_t>(i)] != static_cast<int>(std::uint64_t{w[0]} * 7 >> 32) - 3;
  }
  CHECK(wrong_bits == 0);
  CHECK(wrong_uniform == 0);
  CHECK(wrong_dice == 0);
  // The angle in f32 is off by at most 2^-22, the radius is below 5.8, and each function adds a few units of 2^-24.
  CHECK(worst_normal < 5.8 * 0x1p-22 + 16 * 0x1p-24 * 5.8);
  // 4000 normals: the mean is within 5 deviations of 1/sqrt(4000), the variance of sqrt(2/4000).
  CHECK(std::fabs(mean) < 5 / std::sqrt(4000.0));
  CHECK(std::fabs(square - 1) < 5 * std::sqrt(2 / 4000.0));
}
