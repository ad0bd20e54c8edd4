// The launch ABI: what a compiled kernel receives, the same for the CPU and the GPU.
// Agreed between codegen, which emits kernels, and the runtime, which calls them; the dsl fills the slots.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tileweave::runtime {

// Every kernel argument is one or more 8-byte slots.
//   a view of rank R: 1 + 2R slots: base pointer, R extents, R strides (in elements, both i64)
//   a scalar:         1 slot: its bytes in the low end, the rest zero
inline constexpr int max_slots = 500;
constexpr int slots_of_view(int rank) { return 1 + 2 * rank; }

// The slot of a scalar.
template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) <= 8)
std::uint64_t scalar_slot(T value) {
  std::uint64_t slot = 0;
  std::memcpy(&slot, &value, sizeof value);
  return slot;
}

// A CPU kernel: runs the programs [begin, end) of the linearised grid, x fastest:
// program = x + grid[0] * (y + grid[1] * z). `scratch` has Binary::scratch_bytes bytes, 64-byte aligned, private to the
// call. `services` goes unread into the functions of services.h. It never throws.
using CpuEntry = void (*)(const std::uint64_t* slots, const std::int64_t* grid, std::int64_t begin, std::int64_t end,
                          void* scratch, void* services);

// A GPU kernel: its parameters are the same slots as i64, in order, followed by the three grid extents as i64. It is
// launched as a folded grid (see grid.h) and works out its program from
//   linear = blockIdx.x + gridDim.x * blockIdx.y   (64 bits; divided by Binary::cluster where that is over 1)
// and returns at once where linear >= grid0 * grid1 * grid2.
inline constexpr int grid_slots = 3;

}  // namespace tileweave::runtime
