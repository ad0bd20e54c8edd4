// A golden translation.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#define TILEWEAVE_FUSION_GROUP __attribute__((annotate("tileweave::fusion_group")))

constexpr double pi = 3.14159265358979323846;
TILEWEAVE_FUSION_GROUP double mixed(float x, std::uint8_t code, bool flag) {
  const float a = std::clamp(std::fabs(x), 0.0f, 10.0f);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(a) >> (code & 3);
  double r = std::pow(static_cast<double>(a), 1.5) + pi * code;
  if (flag) r = std::max(r, std::sin(r));
  return r + bits % 7u + std::isnan(x);
}
