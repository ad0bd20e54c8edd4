// A kernel under test with all that a launch of it needs: buffers, grid, and the memory they are laid out in.
// Made by random_program.h, run by compare.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/interpret.h"

namespace tileweave::property {

// What one parameter is given.
struct Argument {
  // Of a view: its shape and how it lies in memory.
  ir::Extents extents;
  ir::Extents strides;
  bool is_output = false;
  std::vector<std::uint64_t> elements;  // bits in row-major order; empty: from the program's seed
  // Of a scalar: its slot.
  std::uint64_t scalar = 0;
};

struct Program {
  std::uint64_t seed = 0;
  ir::Function function{"random"};  // Stage::recorded
  std::vector<Argument> arguments;  // one a parameter
  ir::Grid grid{1, 1, 1};
};

// The memory of one launch: inputs filled from the seed, outputs and all gaps with a canary.
class Memory {
 public:
  explicit Memory(const Program& p);
  const std::vector<std::uint64_t>& slots() const { return slots_; }
  std::vector<std::byte>& buffer(std::size_t parameter) { return buffers_[parameter]; }
  const std::vector<std::byte>& buffer(std::size_t parameter) const { return buffers_[parameter]; }
  // Where the view's element (0, 0, ...) stands in its buffer, in bytes.
  std::size_t base(std::size_t parameter) const { return bases_[parameter]; }

 private:
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<std::size_t> bases_;
  std::vector<std::uint64_t> slots_;
};

// Bits of an element worth trying: zeros of both signs, infinities, NaN, denormals, the ends of the range, small
// numbers, now and then any bits.
std::uint64_t interesting_bits(Dtype t, std::uint64_t random);

}  // namespace tileweave::property
