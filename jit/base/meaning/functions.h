// Every math function's meaning under its public name: meaning::exp(x), meaning::pow(x, y), ... for any value type.
// The op table's rows call these; each takes f32 or f64 (narrower floats are computed in f32 and rounded once).
#pragma once

#include "tileweave/jit/base/meaning/activation.h"
#include "tileweave/jit/base/meaning/erf.h"
#include "tileweave/jit/base/meaning/exp.h"
#include "tileweave/jit/base/meaning/hyperbolic.h"
#include "tileweave/jit/base/meaning/inverse_trig.h"
#include "tileweave/jit/base/meaning/log.h"
#include "tileweave/jit/base/meaning/pow.h"
#include "tileweave/jit/base/meaning/roots.h"
#include "tileweave/jit/base/meaning/trig.h"

// The functions that differ by width: name and number of operands. relu and rsqrt are one template for both.
#define TILEWEAVE_MEANINGS(one, two)                                                                                  \
  one(exp) one(exp2) one(exp10) one(expm1) one(log) one(log2) one(log10) one(log1p) one(cbrt) one(sin) one(cos)       \
      one(tan) one(asin) one(acos) one(atan) one(sinh) one(cosh) one(tanh) one(erf) one(erfc) one(sigmoid)            \
          one(softplus) one(silu) one(gelu) one(gelu_derivative) one(gelu_tanh) one(gelu_sigmoid) two(atan2) two(pow) \
              two(hypot)

namespace tileweave::meaning {

// Not lambdas: a lambda's body would be compiled for the width that V does not have.
#define TILEWEAVE_MEANING_1(name)                                   \
  template <class V>                                                \
  V name(const V& x) {                                              \
    if constexpr (Prim<V>::static_width == 32) {                    \
      return f32::name(x);                                          \
    } else if constexpr (Prim<V>::static_width == 64) {             \
      return f64::name(x);                                          \
    } else {                                                        \
      return Prim<V>::width(x) == 64 ? f64::name(x) : f32::name(x); \
    }                                                               \
  }
#define TILEWEAVE_MEANING_2(name)                                         \
  template <class V>                                                      \
  V name(const V& x, const V& y) {                                        \
    if constexpr (Prim<V>::static_width == 32) {                          \
      return f32::name(x, y);                                             \
    } else if constexpr (Prim<V>::static_width == 64) {                   \
      return f64::name(x, y);                                             \
    } else {                                                              \
      return Prim<V>::width(x) == 64 ? f64::name(x, y) : f32::name(x, y); \
    }                                                                     \
  }
TILEWEAVE_MEANINGS(TILEWEAVE_MEANING_1, TILEWEAVE_MEANING_2)
#undef TILEWEAVE_MEANING_1
#undef TILEWEAVE_MEANING_2

// x tanh(softplus(x)), Misra 2019. With n = e^x (e^x + 2) the tanh is n / (n + 2), exactly; far below zero the function
// is silu to the last bit, and there e^x would be a denormal.
template <class V>
V mish(const V& x) {
  using P = Prim<V>;
  const V two = P::constant(x, 2.0), w = exp(at_most(x, 20.0)), n = w * (w + two);
  return P::select(x < P::constant(x, -40.0), silu(x), x * (n / (n + two)));
}

}  // namespace tileweave::meaning
