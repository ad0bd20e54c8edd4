// How to move a tile from one layout to another: register permutation, warp shuffles, or a pass through shared memory
// with a swizzle without bank conflicts, all derived from the two layouts. The GPU lowering emits the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "tileweave/jit/ir/layout.h"

namespace tileweave::ir {

// Each destination register takes a register of the same thread.
struct RegisterMove {
  std::vector<int> source;  // by destination register
};

// For destination register r, lane l receives what lane (lane_map * l ^ lane_offset[r]) sends for r. The sender chooses
// its register by its own lane: sent_register[r] ^ (sent_map applied to its lane).
struct ShuffleMove {
  BitMatrix lane_map;  // 5 x 5, invertible
  std::vector<std::uint64_t> lane_offset;
  BitMatrix sent_map;  // lane -> register bits
  std::vector<std::uint64_t> sent_register;
};

// Written with the source layout, read with the destination layout. Offsets in elements, linear in the place's bits:
// offset = write.apply(reg | lane | warp) as Layout::matrix orders them.
struct SharedMove {
  SharedLayout memory;
  BitMatrix write, read;
  // Groups of 2^bits registers whose elements are neighbours in memory: accesses of that many elements. The registers
  // of a group, by the low bits of the offset.
  std::vector<int> write_vector, read_vector;  // register indices of unit offsets 1, 2, 4, ...
};

struct Conversion {
  enum class Kind : std::uint8_t { none, registers, shuffle, shared };
  Kind kind = Kind::none;
  RegisterMove registers;
  ShuffleMove shuffle;
  SharedMove shared;
};

// Both layouts hold every element of one tile. `element_bytes` is 1, 2, 4 or 8.
Conversion plan_conversion(const Layout& from, const Layout& to, int element_bytes);
// The pass through shared memory, whether or not something cheaper would do (tests, and where registers are few).
SharedMove plan_shared_move(const Layout& from, const Layout& to, int element_bytes);
// Shared memory whose reads by `read` and writes by `write` have no bank conflicts where that is possible: neighbours
// that both hold in registers stay together (up to 16 bytes), lanes of one access fall into different banks.
SharedLayout conflict_free_layout(const Layout& write, const Layout& read, int element_bytes);
// The number of times the worst bank is hit by one access of 2^vector_bits elements a lane: 1 without conflicts.
int bank_conflicts(const Layout& access, const SharedLayout& memory, int element_bytes, int vector_bits);

}  // namespace tileweave::ir
