// Fragments of one operand of a product, a step of k at a time: from registers, or from a swizzled tile in shared
// memory by ldmatrix. Between DotPlan and the products of gpu_lower_mma.cpp.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/codegen/gpu_dot_plan.h"
#include "tileweave/jit/codegen/gpu_shared_tile.h"

namespace tileweave::codegen {

// A tile that waits in shared memory for dots.
struct StagedTile {
  SharedTile tile;
  llvm::Value* base = nullptr;  // byte offset, i32
};

// An operand there: the offset of each of its elements, by flat index of the (padded) operand, whatever relabelling
// lies between it and the tile.
struct MemoryOperand {
  SharedTile tile;
  llvm::Value* base = nullptr;
  ir::BitMatrix offsets;
};

// 32-bit words of packed elements (f64: elements).
using Words = std::vector<llvm::Value*>;

// `count` of them as one vector; a single one is itself.
llvm::Value* vector_of(GpuContext& c, const Words& all, std::size_t first, int count);

// How the words of an operand lie in a register's number: [words of a fragment][repeats][steps of k][repeats], where
// the first repeats may be missing.
struct WordOrder {
  int k_first = 0, k_count = 0, total = 0;  // bits
  // The word `i`, counted without the steps, of step `step`.
  int word(int i, int step) const {
    const int low = i & ((1 << k_first) - 1);
    return low | step << k_first | (i >> k_first) << (k_first + k_count);
  }
  int words_of_step() const { return 1 << (total - k_count); }
};
WordOrder order_of_a(const DotPlan& p);
WordOrder order_of_b(const DotPlan& p);

// Reads fragments from shared memory.
class FragmentReader {
 public:
  // `l`: the fragments' layout, of the staged tile. Emits addresses where the builder stands.
  FragmentReader(GpuContext& c, const ir::Layout& l, const StagedTile& staged, const MmaInstruction& how,
                 WordOrder order);
  Words step(int k);

 private:
  // How ldmatrix can read them: not, as they lie, or transposed on the way.
  enum class Way : std::uint8_t { elements, rows, transposed };
  static Way choose_way(const ir::Layout& l, const SharedTile& tile, int packed);

  std::uint64_t register_offset(std::uint64_t r) const { return tile_.offset(l_.apply(r)); }
  std::vector<std::uint64_t> thread_bases() const;
  void read_matrices(int i, int k, Words& words);
  llvm::Value* element_word(int word);

  GpuContext& c_;
  const ir::Layout l_;
  const SharedTile tile_;
  const MmaInstruction how_;
  const WordOrder order_;
  const int packed_;
  const Way way_;
  std::vector<int> matrices_;  // bits of a word's number that tell the matrices of one ldmatrix apart: up to two
  std::optional<SharedAddress> address_;
};

// One operand, wherever it is.
class OperandFragments {
 public:
  OperandFragments(WordOrder order, Words all) : order_(order), all_(std::move(all)) {}
  OperandFragments(WordOrder order, FragmentReader reader) : order_(order), reader_(std::move(reader)) {}
  Words step(int k);

 private:
  WordOrder order_;
  Words all_;
  std::optional<FragmentReader> reader_;
};

struct FetchedOperand {
  OperandFragments fragments;
  std::optional<MemoryOperand> memory;
};

}  // namespace tileweave::codegen
