// Which dots of a function become tensor-core instructions, and which thread holds what then.
// Second step of the GPU lowering, between the number of warps and the layouts of all tiles: it looks at the IR only.
#pragma once

#include <optional>
#include <unordered_map>

#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/primitives.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/layout.h"

namespace tileweave::codegen {

// One mma.sync: m x n x k elements, with 32-bit words of packed elements as operands (f64: one element a thread).
struct MmaInstruction {
  PrimitiveId id = PrimitiveId::mma_f16;
  Element element = Element::none;
  Dtype operand = Dtype::f16;
  int m_bits = 4, n_bits = 3, k_bits = 4;

  bool is_f64() const { return id == PrimitiveId::mma_f64; }
  // Bits of a register's number inside one fragment: of the elements of a word, and of the words.
  int packed_bits() const;
  int a_word_bits() const { return is_f64() ? 0 : 2; }
  int b_word_bits() const { return is_f64() ? 0 : 1; }
  int accumulator_bits() const { return is_f64() ? 1 : 2; }
};

// A dot as a product of fragments. Each layout is of its whole (padded) tile. Registers count, from the lowest bit: the
// fragment's own, then repeats along the last axis, along the one before, along the batch axes.
struct DotPlan {
  MmaInstruction how;
  ir::Layout a, b, accumulator;
  int m_bits = 0, n_bits = 0, k_bits = 0, batch_bits = 0;  // repeats of a warp
  // Four warps hold 64 rows together, as wgmma's accumulator does: repeats along m are of 64 rows times the groups.
  bool has_warp_groups = false;
  // Instructions along k; extents that are no multiple are filled up with zeros.
  int steps(const ir::Op& dot) const;
};

// The instruction that multiplies tiles of `t`; nothing where the device has none. f32 has one only as tf32.
std::optional<MmaInstruction> mma_instruction(Dtype t, bool tf32, int sm);

// Bytes of shared memory that a block may have.
std::int64_t shared_limit(const Target& t);

class DotPlans {
 public:
  DotPlans() = default;
  // Throws CompileError where accumulators cannot fit the registers that a thread may have.
  DotPlans(const ir::Function& f, const Target& target, int warps);
  // Null: multiply-adds.
  const DotPlan* of(const ir::Op& op) const;
  bool empty() const { return plans_.empty(); }

 private:
  std::unordered_map<const ir::Op*, DotPlan> plans_;
};

}  // namespace tileweave::codegen
