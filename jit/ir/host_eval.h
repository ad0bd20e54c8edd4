// The exact meaning of every element-wise op and conversion on host scalars: ir::host.
// Used by the builder's constant folder and by the interpreter, so both and every backend mean the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "tileweave/jit/ir/ops.h"
#include "tileweave/jit/ir/type.h"

namespace tileweave::ir::host {

// Elements travel as their storage bits, zero-extended to 64. Narrow floats compute in f32 and round once.
// One lane of an op at operand type `t` (for `where` the type of b and c); unused operands are ignored.
using LaneFunction = std::uint64_t (*)(std::uint64_t a, std::uint64_t b, std::uint64_t c);
// Null where the op does not take `t`.
LaneFunction lane_function(OpId id, Dtype t);
std::uint64_t eval_elementwise(OpId id, Dtype t, std::span<const std::uint64_t> operands);

// The convert op: float to int truncates and saturates, NaN gives 0; int to int wraps, or saturates if asked; anything
// to a float rounds once, to nearest even (fp8 saturates); to bool is x != 0.
std::uint64_t convert_bits(std::uint64_t bits, Dtype from, Dtype to, bool saturate = false);

// The element's value; exact but for 64-bit integers past 2^53.
double to_double(std::uint64_t bits, Dtype t);
std::uint64_t from_double(double v, Dtype t);     // as convert from f64
std::uint64_t from_int(std::int64_t v, Dtype t);  // integers wrap
// Sign- or zero-extended; of an integer or bool.
std::int64_t to_int64(std::uint64_t bits, Dtype t);

}  // namespace tileweave::ir::host
