// Tiles in buffers, line by line: what the CPU lowerings of scan, sort and their kin share.
// Over cpu_context.h; a line is the elements of a tile along one axis.
#pragma once

#include <algorithm>
#include <bit>

#include "tileweave/jit/codegen/cpu_context.h"

namespace tileweave::codegen::cpu {

// A tile's row-major order around one axis: element (o, k, i) stands at (o * length + k) * inner + i.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;

  Lines(const ir::Type& t, int axis) : length(t.extents[static_cast<std::size_t>(axis)]) {
    for (int k = 0; k < t.rank; ++k)
      (k < axis ? outer : inner) *= k == axis ? 1 : t.extents[static_cast<std::size_t>(k)];
  }
  llvm::Value* index(Context& c, llvm::Value* o, llvm::Value* k, llvm::Value* i) const {
    llvm::Value* row = c.b.CreateAdd(c.b.CreateMul(o, c.i64(length)), k);
    return c.b.CreateAdd(c.b.CreateMul(row, c.i64(inner)), i);
  }
};

// Elements of a buffer in register form; lanes 0 is one element.
inline llvm::Value* load_elements(Context& c, const Buffer& buffer, llvm::Value* index, unsigned lanes) {
  llvm::Value* at = c.b.CreateGEP(c.memory_type(buffer.type), buffer.base, index);
  const llvm::Align align(Context::element_bytes(buffer.type));
  return c.from_memory(c.b.CreateAlignedLoad(c.memory_type(buffer.type, lanes), at, align), buffer.type);
}
inline void store_elements(Context& c, const Buffer& buffer, llvm::Value* index, llvm::Value* x) {
  llvm::Value* at = c.b.CreateGEP(c.memory_type(buffer.type), buffer.base, index);
  c.b.CreateAlignedStore(c.to_memory(x, buffer.type), at, llvm::Align(Context::element_bytes(buffer.type)));
}

// Lanes of a vector of elements of `bits`, a power of two no larger than `length`; 0 where that leaves one.
inline unsigned lanes_for(const Context& c, int bits, std::int64_t length) {
  const auto fit = static_cast<std::int64_t>(c.machine.vector_bits) / bits;
  const auto lanes = std::bit_floor(static_cast<std::uint64_t>(std::min(fit, length)));
  return lanes <= 1 ? 0 : static_cast<unsigned>(lanes);
}

// A shuffle of one vector by lane -> lane.
template <class From>
llvm::Value* permute(Context& c, llvm::Value* v, From from) {
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements();
  std::vector<int> mask;
  for (unsigned l = 0; l < lanes; ++l) mask.push_back(from(static_cast<int>(l)));
  return c.b.CreateShuffleVector(v, mask);
}
// The constant vector of flag(lane).
template <class Flag>
llvm::Value* lane_flags(Context& c, unsigned lanes, Flag flag) {
  std::vector<llvm::Constant*> flags;
  for (unsigned l = 0; l < lanes; ++l) flags.push_back(c.b.getInt1(flag(l)));
  return llvm::ConstantVector::get(flags);
}

}  // namespace tileweave::codegen::cpu
