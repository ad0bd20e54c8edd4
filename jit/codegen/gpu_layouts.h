// Chooses how many warps run a program and which linear layout each tile of a function has.
// First step of the GPU lowering; looks at the tile IR only.
#pragma once

#include <optional>
#include <unordered_map>

#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/layout.h"

namespace tileweave::codegen {

class DotPlans;

ir::TileShape shape_of(const ir::Type& t);

// A power of two, at least 1: Options::warps where given, else by the bytes of the largest tile that is read or written
// (design/gpu-memory-bound.md: 16-32 bytes a thread for element-wise kernels, 64 where rows are reduced).
int choose_warps(const ir::Function& f);

// One layout for each tile value of rank 1 and more, spread from the loads and stores along the ops: an element-wise
// chain has one layout throughout, a reduction gives a slice of its operand's, a broadcast operand has the slice of its
// result's. Where two meet, the use converts. Accumulators of tensor cores come before all: what is computed from them
// stays in their layout, and a store of it has a layout of its own.
class LayoutMap {
 public:
  LayoutMap(const ir::Function& f, int warps, const DotPlans* dots = nullptr);
  const ir::Layout& of(const ir::Value* v) const;
  // Of the tile that a load or store moves, while it moves.
  const ir::Layout& of_access(const ir::Op& op) const;

 private:
  friend class LayoutSpreader;
  std::unordered_map<const ir::Value*, ir::Layout> layouts_;
  std::unordered_map<const ir::Op*, ir::Layout> stores_;
};

// --- how a shape op moves layouts; empty where the operand's cannot be told from the result's (or back)
std::optional<ir::Layout> operand_layout(const ir::Op& op, const ir::Layout& result);
std::optional<ir::Layout> result_layout(const ir::Op& op, const ir::Layout& operand);
// trans, expand_dims, broadcast, reshape of whole powers of two: the result's registers are the operand's.
bool is_relabelling(const ir::Op& op);
// The operand's register, in operand_layout(op, result), that register r of the result is.
int relabelled_register(const ir::Op& op, const ir::Layout& result, int r);

}  // namespace tileweave::codegen
