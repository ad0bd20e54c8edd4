// Walks over everything that computing a value at a point touches: lazy values with the maps they are taken at, buffers
// and scalars. Used by the planner and by the nest emitter, so both see the same.
#pragma once

#include <map>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tileweave/jit/codegen/cpu_tiles.h"

namespace tileweave::codegen::cpu {

// What a walk found, each once.
struct Reach {
  std::vector<std::pair<const ir::Value*, AxisMap>> lazy;     // computed at the point
  std::vector<std::pair<const ir::Value*, AxisMap>> buffers;  // read from memory: kept values, results, carried tiles
  std::vector<const ir::Value*> units;                        // single elements
};

class Walk {
 public:
  explicit Walk(const std::unordered_set<const ir::Value*>& kept) : kept_(kept) {}
  // `compute`: the root itself is computed even if it is kept (that is what a keep task does).
  void from(const ir::Value* root, const AxisMap& m, bool compute = false) { visit(root, m, compute); }
  const Reach& found() const { return found_; }

 private:
  struct Less {
    bool operator()(const std::pair<const ir::Value*, AxisMap>& a,
                    const std::pair<const ir::Value*, AxisMap>& b) const {
      if (a.first != b.first) return a.first < b.first;
      if (a.second.whole != b.second.whole) return a.second.whole < b.second.whole;
      return a.second.axis < b.second.axis;
    }
  };

  void visit(const ir::Value* v, const AxisMap& m, bool compute) {
    if (v->type.is_view() || !seen_.insert({v, m}).second) return;
    if (is_unit(v)) {
      found_.units.push_back(v);
      return;
    }
    if (!is_lazy(v) || m.whole || (!compute && kept_.contains(v))) {
      found_.buffers.emplace_back(v, m);
      return;
    }
    found_.lazy.emplace_back(v, m);
    const ir::Op& op = *v->def;
    if (op.id == ir::OpId::load || op.id == ir::OpId::inside) {
      for (int k = 0; k < op.operands[0]->type.rank; ++k) {
        visit(op.operands[1 + static_cast<std::size_t>(k)], AxisMap{}, false);
      }
      if (op.id == ir::OpId::inside) return;
    }
    for (const std::size_t i : tile_operands(op)) {
      if (op.id != ir::OpId::load || op.operands[i] == mask_of(op)) visit(op.operands[i], operand_map(op, i, m), false);
    }
  }

  const std::unordered_set<const ir::Value*>& kept_;
  std::set<std::pair<const ir::Value*, AxisMap>, Less> seen_;
  Reach found_;
};

}  // namespace tileweave::codegen::cpu
