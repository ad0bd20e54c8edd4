// Runs the programs of a grid on all cores: who runs which part, and each worker's scratch memory.
// Under the CPU kernel's launch; oneTBB stays in cpu_pool.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tileweave/jit/runtime/abi.h"

namespace tileweave::runtime {

struct CpuWork {
  CpuEntry entry;
  const std::uint64_t* slots;
  const std::int64_t* grid;
  std::int64_t scratch_bytes;
  void* services;
  bool serial = false;  // all on the calling thread, in order
};

// Runs the programs [0, total) and returns when all have run. One program, or few that are quick, run on the calling
// thread: it runs the first and takes its time as the estimate. Nested calls and calls from many threads are fine.
// False where a worker had no memory for its scratch; the grid is then not complete.
bool run_on_all_cores(const CpuWork& work, std::int64_t total);

// The calling thread's scratch of at least `bytes`, 64-byte aligned, kept for later calls; null without memory.
void* thread_scratch(std::int64_t bytes) noexcept;

int cpu_workers();

}  // namespace tileweave::runtime
