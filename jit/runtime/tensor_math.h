// Checked arithmetic on extents and strides, shared by the tensor's files.
// Internal to the runtime; every result fits 64 bits or the user gets a LaunchError.
#pragma once

#include <string>

#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::runtime {

// "f32{2, 3}".
std::string describe(const AnyTensor& t);
// Rank at most 6, no negative extent.
void check_extents(const Dims& extents, const Place& place);
// The number of elements; their bytes fit 63 bits.
std::int64_t checked_size(const Dims& extents, Dtype dtype, const Place& place);
Dims row_major_strides(const Dims& extents);
// The bytes reached from the element with all indices 0; fits 64 bits.
ByteInterval checked_interval(const Dims& extents, const Dims& strides, Dtype dtype, const Place& place);
void require_defined(const AnyTensor& t, const char* operation, const Place& place);

}  // namespace tileweave::runtime
