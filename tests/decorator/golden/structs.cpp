// A golden translation.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#define TILEWEAVE_FUSION_GROUP __attribute__((annotate("tileweave::fusion_group")))

struct Complex {
  float re, im;
};
TILEWEAVE_FUSION_GROUP Complex multiply(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
TILEWEAVE_FUSION_GROUP float norm_of_square(Complex z) {
  const Complex s = multiply(z, z);
  return s.re * s.re + s.im * s.im;
}
template <class T>
TILEWEAVE_FUSION_GROUP T halfway(T a, T b) {
  return (a + b) / T(2);
}
