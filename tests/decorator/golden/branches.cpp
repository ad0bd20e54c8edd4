// A golden translation.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#define TILEWEAVE_FUSION_GROUP __attribute__((annotate("tileweave::fusion_group")))

TILEWEAVE_FUSION_GROUP float soft_clip(float x, float lo, float hi) {
  if (x < lo) return lo + 0.1f * (x - lo);
  if (x > hi) return hi + 0.1f * (x - hi);
  return x;
}

namespace geometry {
enum Side { left, right = 5 };
TILEWEAVE_FUSION_GROUP int pick(float x, int side) {
  int score = 0;
  if (x > 1 && side != left) {
    score += 2;
  } else if (x < -1 || !(x == x)) {
    score -= 1;
  }
  switch (side) {
    case left:
      return score;
    case right:
      ++score;
      break;
    default:
      score *= 3;
  }
  return x > 0 ? score : -score;
}
}  // namespace geometry
