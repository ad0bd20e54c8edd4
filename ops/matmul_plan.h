// Blocks and warps of a matrix product, by a small cost model of the device.
// Used by the products of this library before they launch; tw::dot itself takes any block.
#pragma once

#include <algorithm>
#include <array>

#include "tileweave/dsl/grid.h"

namespace tileweave::ops {

struct MatmulBlocks {
  int m = 64, n = 64, k = 32;
};
struct MatmulPlan {
  MatmulBlocks block;
  int warps = 0;  // 0: chosen by the compiler
};

namespace detail {

// A block that tensor cores of 16-bit elements multiply well, with the share of their peak that it reaches when nothing
// else limits it, and how many fit a multiprocessor.
struct MatmulCandidate {
  MatmulPlan plan;
  double efficiency;
  int resident;
};
// One and two warp groups with wgmma and TMA.
inline constexpr std::array<MatmulCandidate, 5> groups_candidates{{{{{128, 256, 64}, 8}, 1.0, 1},
                                                                   {{{128, 128, 64}, 8}, 0.79, 1},
                                                                   {{{64, 256, 64}, 4}, 0.75, 1},
                                                                   {{{64, 128, 64}, 4}, 0.74, 2},
                                                                   {{{64, 64, 64}, 4}, 0.58, 3}}};
// mma.sync, and fewer rows than a warp group has.
inline constexpr std::array<MatmulCandidate, 3> warps_candidates{
    {{{{128, 128, 32}, 8}, 0.6, 1}, {{{64, 64, 64}, 4}, 0.45, 2}, {{{32, 64, 64}, 4}, 0.3, 4}}};
inline constexpr std::array<MatmulCandidate, 2> few_rows_candidates{
    {{{{16, 64, 128}, 4}, 0.15, 4}, {{{16, 32, 128}, 4}, 0.1, 6}}};

// Clocks of a product: waves of tiles, each as long as its sums or its loads take, whichever is longer, and what every
// tile costs before its first and after its last sum. The last wave counts whole.
inline double matmul_clocks(const MatmulCandidate& c, index_t m, index_t n, index_t k, int units) {
  constexpr double sums_per_clock = 2048, bytes_per_clock = 76, fixed = 3000;  // of a multiprocessor
  const MatmulBlocks& b = c.plan.block;
  const double math = double(b.m) * b.n * b.k / (sums_per_clock * c.efficiency);
  const double loads = 2.0 * (b.m + b.n) * b.k / bytes_per_clock;
  const double tile = double(cdiv(k, b.k)) * std::max(math, loads) + fixed;
  const index_t tiles = cdiv(m, b.m) * cdiv(n, b.n), at_once = index_t{std::max(units, 1)};
  const index_t resident = std::clamp<index_t>(cdiv(tiles, at_once), 1, c.resident);
  return double(cdiv(tiles, at_once * resident)) * double(resident) * tile;
}

template <std::size_t count>
MatmulPlan cheapest(const std::array<MatmulCandidate, count>& candidates, index_t m, index_t n, index_t k, int units) {
  return std::min_element(candidates.begin(), candidates.end(),
                          [&](const MatmulCandidate& a, const MatmulCandidate& b) {
                            return matmul_clocks(a, m, n, k, units) < matmul_clocks(b, m, n, k, units);
                          })
      ->plan;
}

}  // namespace detail

// For elements of so many bytes. Small matrices take small tiles, so that every core or multiprocessor has work.
inline MatmulPlan plan_matmul(const DeviceFacts& device, int element_bytes, index_t m, index_t n, index_t k) {
  constexpr int tensor_cores = 8, warp_groups = 9;
  if (element_bytes == 2 && device.compute_major >= tensor_cores && std::min(n, k) >= 64) {
    if (m <= 16) return detail::cheapest(detail::few_rows_candidates, m, n, k, device.units);
    if (m < 64 || device.compute_major < warp_groups) {
      return detail::cheapest(detail::warps_candidates, m, n, k, device.units);
    }
    return detail::cheapest(detail::groups_candidates, m, n, k, device.units);
  }
  const auto fit = [](index_t extent, index_t most) {
    return static_cast<int>(std::min<index_t>(most, std::max<index_t>(16, next_pow2(extent))));
  };
  return {{fit(m, 64), fit(n, 64), fit(k, 32)}, 0};
}

}  // namespace tileweave::ops
