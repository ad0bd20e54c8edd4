// Numbers carried in two floats, a value and what its rounding lost, for the places where one float is not enough.
// Above primitives.h; used by logarithms, pow and hypot.
#pragma once

#include "tileweave/jit/base/meaning/primitives.h"

namespace tileweave::meaning {

template <class V>
struct TwoParts {
  V high, low;
};

// a + b where |a| >= |b| or a = 0.
template <class V>
TwoParts<V> sum_of(const V& a, const V& b) {
  const V sum = a + b;
  return {sum, b - (sum - a)};
}

template <class V>
TwoParts<V> product_of(const V& a, const V& b) {
  const V product = a * b;
  return {product, Prim<V>::fma(a, b, -product)};
}

}  // namespace tileweave::meaning
