// Activations by name: fusion groups, usable on host scalars, tiles and tensors, and as the epilogue of other ops.
// Most are single rows of the op table; the others are composed here.
#pragma once

#include "tileweave/dsl/fusion_group.h"

namespace tileweave {

// x where x > 0, slope * x elsewhere.
inline constexpr auto leaky_relu =
    fusion_group("leaky_relu", [](auto x, auto slope) { return where(x > 0, x, slope * x); });
// x where x > 0, alpha * (e^x - 1) elsewhere.
inline constexpr auto elu = fusion_group("elu", [](auto x, auto alpha) { return where(x > 0, x, alpha * expm1(x)); });
// x clamped to [lo, hi]; a NaN stays.
inline constexpr auto clamp =
    fusion_group("clamp", [](auto x, auto lo, auto hi) { return where(x < lo, lo, where(x > hi, hi, x)); });

namespace ops {
using tileweave::clamp;
using tileweave::elu;
using tileweave::erf;
using tileweave::exp;
using tileweave::gelu;
using tileweave::gelu_derivative;
using tileweave::gelu_sigmoid;
using tileweave::gelu_tanh;
using tileweave::identity;
using tileweave::leaky_relu;
using tileweave::log;
using tileweave::mish;
using tileweave::relu;
using tileweave::sigmoid;
using tileweave::silu;
using tileweave::softplus;
using tileweave::sqrt;
using tileweave::tanh;
}  // namespace ops

}  // namespace tileweave
