// A golden translation.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#define TILEWEAVE_FUSION_GROUP __attribute__((annotate("tileweave::fusion_group")))

constexpr float taylor[] = {1.0f, 0.5f, 0.25f};

TILEWEAVE_FUSION_GROUP float series(float x, int n) {
  float sum = 0, power = 1;
  for (int i = 0; i < 3; ++i) {
    sum += taylor[i] * power;
    power *= x;
  }
  while (n > 0) {
    if (sum > 100) break;
    sum = sum * x + 1;
    n--;
  }
  do {
    sum *= 0.5f;
  } while (sum > 1);
  return sum;
}
