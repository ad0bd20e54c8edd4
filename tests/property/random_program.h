// Random tile programs, well typed by construction: what the property tests run on every backend.
// All element types, element-wise ops, casts, shapes, partial blocks of oddly strided views, pointers, reductions, dot,
// scans, sorts and gathers, and control flow with mutable tiles.
#pragma once

#include "tests/property/program.h"

namespace tileweave::property {

struct RandomOptions {
  int ops = 30;                     // about how many
  std::int64_t max_elements = 128;  // of a tile
  int special = 10;                 // percent of operands that are 0, 1, -1, a power of two, or the other operand
  bool composed = true;             // exp, erf, ...
  int reductions = 6;               // percent of ops; 0 for none
  int along_axis = 8;               // percent of ops: slice, cat, flip, gather, sort, histogram, scan, fold
  bool control = true;
  bool pointers = true;
  bool dots = true;
  bool f64 = true;
  bool fp8 = true;
};

// The same program for the same seed and options. Programs of one grid write disjoint elements, so they may run in any
// order. A result never shows the bits of a NaN, which nobody promises.
Program random_program(std::uint64_t seed, const RandomOptions& options = {});

}  // namespace tileweave::property
