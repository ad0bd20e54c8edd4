// Random tensors: the same numbers for a seed on every device, from Philox4x32-10.
// Beside AnyTensor; kernels have tw::philox of their own.
#pragma once

#include <array>
#include <cstdint>

#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::runtime {

// One block of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// Standard normal numbers: element i comes from counter i / 4 alone (Box-Muller in double, rounded once), so the values
// do not depend on the device or on how many there are. Float element types. Made on the host, then copied.
AnyTensor random_normal(const Device& device, Dtype dtype, const Dims& extents, std::uint64_t seed,
                        const Place& place = std::source_location::current());
// Uniform in [lo, hi) (after rounding to the type hi itself can occur); integers: in [lo, hi), every value alike to
// 2^-32; bool: lo and hi are ignored.
AnyTensor random_uniform(const Device& device, Dtype dtype, const Dims& extents, std::uint64_t seed, double lo = 0,
                         double hi = 1, const Place& place = std::source_location::current());

}  // namespace tileweave::runtime
