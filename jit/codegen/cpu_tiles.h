// Questions about tile IR that the CPU planner and the CPU lowering both ask: which values are scalars, which are
// computed lazily, and how the axes of an op's operand follow from those of its result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen::cpu {

// Where an element of a value is taken, inside a loop nest: for each axis of the value the axis of the nest that
// indexes it, or -1 for index 0 (an axis of extent 1, or one that a broadcast made of it). `whole` stands for all of
// the value at once: the operand of a reshape that moves elements between axes.
struct AxisMap {
  std::array<std::int8_t, ir::max_rank> axis{-1, -1, -1, -1, -1};
  bool whole = false;
  friend bool operator==(const AxisMap&, const AxisMap&) = default;
};
AxisMap identity_map(int rank);
// Whether the map is the identity on a value of this type, axes of extent 1 aside.
bool is_identity(const AxisMap& m, const ir::Type& t);

// One element: such a value lives in a register, whatever its rank.
bool is_unit(const ir::Value* v);
// A tile of several elements that no loop nest of its own makes: it is computed where it is used.
bool is_lazy(const ir::Value* v);
// An op whose operands and results are whole tiles in memory: no nest computes it, it has loops of its own.
bool is_whole_op(const ir::Op& op);
// A reshape that only adds or drops axes of extent 1.
bool is_axis_reshape(const ir::Op& op);
// The map of operand `i` of a lazy op, given that of its result. Views and scalar offsets have none.
AxisMap operand_map(const ir::Op& op, std::size_t i, const AxisMap& result);
// The operands of a lazy op that are tiles (or pointer tiles): not its view, not its offsets.
std::vector<std::size_t> tile_operands(const ir::Op& op);
// The mask operand of an op that can have one, or null.
const ir::Value* mask_of(const ir::Op& op);
// The tile a store writes.
const ir::Value* stored_value(const ir::Op& op);

// One axis of a block in a view: 0 <= offset + index < extent(view, view_axis). Two equal ones hold for the same lanes.
struct Bound {
  const ir::Value* view = nullptr;
  int view_axis = 0;
  const ir::Value* offset = nullptr;
  int nest_axis = -1;  // -1: index 0
  friend bool operator==(const Bound&, const Bound&) = default;
};
// The bounds of the block of a load, store or inside op (none where it is known to be inbounds).
std::vector<Bound> bounds_of(const ir::Op& op, const AxisMap& m);
void add_bounds(std::vector<Bound>& to, const std::vector<Bound>& from);
bool contains(const std::vector<Bound>& all, const Bound& b);
// Takes a mask apart: bounds that must hold, and what is left to be tested lane by lane.
struct MaskParts {
  std::vector<Bound> bounds;
  std::vector<std::pair<const ir::Value*, AxisMap>> rest;
};
void split_mask(const ir::Value* mask, const AxisMap& m, MaskParts& out);

// A memory access at a place of its region.
struct Access {
  const ir::Op* op = nullptr;
  bool writes = false;
};
// Whether two accesses, at least one a write, can touch the same element.
bool may_conflict(const ir::Function& f, const ir::Op& a, const ir::Op& b);

}  // namespace tileweave::codegen::cpu
