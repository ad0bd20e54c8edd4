// The SIMT machine's front: a kernel's code for one thread, its grid and what it may touch in, done or a LaunchError
// out. Between SimtKernel, which knows binaries, and simt_cluster, which runs one cluster of blocks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tileweave/jit/base/place.h"
#include "tileweave/jit/runtime/services.h"

namespace tileweave::runtime::simt {

// Global memory that the launch may access.
struct GlobalRange {
  std::uint64_t begin = 0, end = 0;
  int argument = -1;  // slot of the view it belongs to, for messages; -1: an allocation
};

// What the module says about itself (codegen/simt.h); see simt_about.h.
struct About {
  struct View {
    int slot = 0, rank = 0, element_bytes = 1;  // no bytes: a pointer, which may reach anything
  };
  struct Site {
    std::string file;
    std::uint32_t line = 0, column = 0;
  };
  std::vector<Site> sites;
  std::vector<std::string> texts;
  std::vector<View> views;
};

using ThreadEntry = void (*)(const std::uint64_t* slots);

struct Grid {
  const char* kernel = "";
  ThreadEntry entry = nullptr;
  const std::uint64_t* slots = nullptr;  // arguments and the grid's three extents
  std::int64_t blocks = 0;               // gridDim.x * gridDim.y; a multiple of `cluster`
  int threads = 32;                      // a block; a multiple of 32
  int cluster = 1;
  std::int64_t smem_bytes = 0;
  std::uint64_t seed = 0;
  std::span<const GlobalRange> ranges;  // sorted by begin, disjoint
  const About* about = nullptr;         // may be null
};

// Runs every block, clusters in parallel on all cores. Errors: LaunchError of kind fault, that of the lowest block
// whichever core met one first.
void run_grid(const Grid& grid, const Place& place);

// Sorts the ranges and joins those that overlap or touch.
std::vector<GlobalRange> tidy(std::vector<GlobalRange> ranges);

// The functions that emulated kernels call: the primitives as "tw.<name>", and the host's.
std::span<const Symbol> simt_symbols();
// For tests: each primitive's C++ signature as letters (result first; small integers are all 'i').
struct SymbolSignature {
  std::string name, letters;
};
std::vector<SymbolSignature> simt_signatures();

}  // namespace tileweave::runtime::simt
