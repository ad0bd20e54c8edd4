// A copy between two strided arrays, reduced to as few axes as it has, and its execution on the host.
// Under AnyTensor's copies; the reduced form is also what the CUDA copies are made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::runtime {

// Axes from the slowest to the fastest in the target; strides in bytes; target strides are positive.
struct StridedCopy {
  struct Axis {
    std::int64_t extent, target_stride, source_stride;
  };
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  std::int64_t element_bytes = 0;
  int rank = 0;
  std::array<Axis, max_rank> axes{};

  std::int64_t elements() const;
  // Whether the last axis is one run of bytes on both sides; then run_bytes() is its length, else one element's.
  bool has_run() const;
  std::int64_t run_bytes() const;
  // Axes above the run, and how many runs there are.
  int outer_rank() const { return has_run() ? rank - 1 : rank; }
  std::int64_t runs() const { return elements() / (run_bytes() / element_bytes); }
};

// Same extents and dtype, no element of the target twice. Both pointers as data() gives them.
StridedCopy plan_copy(const AnyTensor& target, const AnyTensor& source);
// On all cores where it is large. The two must not overlap.
void run_on_host(const StridedCopy& copy);

}  // namespace tileweave::runtime
