// One program for each op row and element type, conversion and reduction, over values at the edges of the type.
// Backends run them all and are compared with the interpreter.
#pragma once

#include <string>
#include <vector>

#include "tests/property/program.h"

namespace tileweave::property {

struct SweepCase {
  std::string name;  // "exp f16"
  Program program;
};

// Every element-wise op at every element type it takes: all pairs (and many triples) of edge values.
std::vector<SweepCase> elementwise_sweep();
// Every conversion, wrapping and saturating, and every bit cast.
std::vector<SweepCase> conversion_sweep();
// Every reduction of edge values in rows and columns, with and without a mask.
std::vector<SweepCase> reduction_sweep();

// Scans, folds, sort, argsort, flip, slice, cat and gather of edge values along both axes, with and without a mask.
std::vector<SweepCase> lanes_sweep();

// Zeros, ones, halves, powers of two, the ends of the range, denormals, infinities, NaN.
std::vector<std::uint64_t> edge_values(Dtype t);

}  // namespace tileweave::property
