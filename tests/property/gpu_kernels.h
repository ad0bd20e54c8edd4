// Kernels as users write them, each for one way that the GPU lowering can take: wide and ragged accesses, reductions in
// a warp and across warps, layouts converted by shuffles and through shared memory, products, gathers, loops. Run under
// SIMT emulation against the interpreter, with right and with planted wrong lowerings.
#pragma once

#include <vector>

#include "tests/property/sweep.h"

namespace tileweave::property {

// Finite inputs, so that a wrong value is seen; views with the facts that a launch would find.
std::vector<SweepCase> gpu_kernels();

}  // namespace tileweave::property
