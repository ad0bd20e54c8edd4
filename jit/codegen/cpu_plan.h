// The CPU's plan: what a region's ops become, before any LLVM is emitted.
//
// Element-wise ops, shape ops, conversions and loads are LAZY: they are computed inside the loop nest of whatever
// consumes them, never into memory. What needs a nest is a TASK: a store, a reduction, a dot, or KEEPING a value in a
// buffer. Tasks without a dependence and with the same iteration space share one nest. A lazy value is kept where
//   - it is expensive and more than one nest would compute it (softmax's exponentials), or a broadcast would repeat it;
//   - a loop around its consumer would repeat it;
//   - a store between its load and its consumer may change what the load reads;
//   - a reshape moves its elements between axes, or an op on whole tiles (dot, sort, ...) reads it;
//   - a region gives it (yield): the carried tile's buffer.
// Cheap values and loads are computed again instead: a row of a few KB is still in the first-level cache.
#pragma once

#include <unordered_set>
#include <utility>
#include <vector>

#include "tileweave/jit/codegen/cpu_tiles.h"

namespace tileweave::codegen::cpu {

struct Task {
  enum class Kind { store, reduce, arg_reduce, keep, whole };
  Kind kind = Kind::keep;
  const ir::Op* op = nullptr;        // null for keep; of a whole: all of its operands are in buffers, see cpu_whole.cpp
  const ir::Value* value = nullptr;  // computed at each point: what is stored, reduced or kept
  int yield = -1;                    // keep: which operand of the region's terminator this is
  ir::Type space;                    // the nest's axes are this tile's
  int reduce_axis = -1;
  // Lanes outside these take no part (of a keep: are never read); and masks to be tested lane by lane.
  std::vector<Bound> bounds;
  std::vector<std::pair<const ir::Value*, AxisMap>> masks;
};

// A load whose block of the next program (along the grid's first axis) is asked for while a nest computes.
struct Fetch {
  const ir::Op* load = nullptr;
  AxisMap map;                                      // at which the nest takes the load's value
  std::array<std::int64_t, ir::max_rank> growth{};  // of each of its offsets, from one program to the next
};

// One thing to emit: a nest for tasks that share it, or an op (scalar or control).
struct Step {
  std::vector<Task> tasks;
  const ir::Op* op = nullptr;
  std::vector<Fetch> fetches;
};

struct RegionPlan {
  std::vector<Step> steps;
  // For each tile the terminator gives: whether it may be written over the region argument of the same number while
  // that is being read.
  std::vector<bool> in_place;
};

class Planner {
 public:
  explicit Planner(const ir::Function& f);
  // Regions are planned from the outside in. `carried` is how many operands the terminator has before the carried ones
  // (a condition's flag).
  RegionPlan plan(const ir::Region& r);
  bool is_kept(const ir::Value* v) const { return kept_.contains(v); }
  const std::unordered_set<const ir::Value*>& kept() const { return kept_; }

 private:
  friend class RegionPlanner;
  void scan(const ir::Region& r);
  void keep_for_nested(const ir::Op& control);

  const ir::Function& f_;
  const bool in_order_;  // full debug: every op by itself, in the order of the user's statements
  std::unordered_set<const ir::Value*> kept_;
};

// Adds the fetches to the plan of a kernel's body.
void plan_fetches(RegionPlan& body, const std::unordered_set<const ir::Value*>& kept);

// How much work one element of a lazy value is, in rough units of one vector instruction.
int cost_of(const ir::Value* v, const std::unordered_set<const ir::Value*>& kept);

}  // namespace tileweave::codegen::cpu
