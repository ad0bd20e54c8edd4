// The sizes of tile IR that a user can meet. Each is a RecordError with the user's place.
// Checked by infer (tiles), verify (blocks, nesting) and the parser.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tileweave::ir {

// A tile's elements are held in registers and in loops over them; past this a kernel needs smaller blocks.
inline constexpr std::int64_t max_tile_elements = std::int64_t{1} << 20;
// LLVM's compile time is quadratic in the size of a basic block, and a block of tile IR becomes a few of them.
inline constexpr std::size_t max_block_ops = 4096;
// The same once composed functions are written out (some 20 to 100 ops each).
inline constexpr std::size_t max_expanded_ops = 16384;
// What all calls of a kernel may add up to when they are written out, so that calls within calls stay bounded.
inline constexpr std::size_t max_inlined_ops = 65536;
inline constexpr int max_region_depth = 64;
// How many tiles one scan or fold combines together.
inline constexpr std::size_t max_combined = 8;

}  // namespace tileweave::ir
