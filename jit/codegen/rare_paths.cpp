// Finds the long values that only a `where` needs. See rare_paths.h.
// Asked by the CPU nests and by the GPU's element-wise chains.
#include "tileweave/jit/codegen/rare_paths.h"

#include <algorithm>

namespace tileweave::codegen {

using ir::Op, ir::OpId, ir::Value;

namespace {

// Below this many ops a branch costs as much as it saves; above the other nobody looks further.
constexpr std::size_t shortest = 40, longest = 600;
// The other value must be computed too: where it is an operand or a constant (a NaN for an infinite angle), the long
// one is what most lanes take.
constexpr std::size_t shortest_alternative = 8;

bool is_lanewise(const Value* v) {
  if (v->def == nullptr || v->type.rank == 0 || !v->type.is_tile()) return false;
  return ir::is_elementwise(v->def->id) || v->def->id == OpId::convert || v->def->id == OpId::bitcast;
}
bool is_constant(const Value* v) { return v->def != nullptr && v->def->id == OpId::constant; }

// What computing `v` takes, operands first; not much more than `limit` of it.
void list_operands_first(const Value* v, std::unordered_set<const Value*>& seen, std::vector<const Value*>& list,
                         std::size_t limit = longest) {
  if (!is_lanewise(v) || seen.size() > limit || !seen.insert(v).second) return;
  for (const Value* x : v->def->operands) list_operands_first(x, seen, list, limit);
  list.push_back(v);
}

bool has_alternative(const Op& where) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> list;
  list_operands_first(where.operands[2], seen, list, shortest_alternative);
  return list.size() >= shortest_alternative;
}

}  // namespace

RarePaths::RarePaths(const ir::Function& f) {
  collect(f.body());
  for (const auto& [condition, group] : groups_) decide(group);
}

const std::vector<const Value*>* RarePaths::before_branch(const Op& where) const {
  const auto at = before_.find(&where);
  return at == before_.end() ? nullptr : &at->second;
}

void RarePaths::collect(const ir::Region& r) {
  for (const auto& op : r.ops) {
    for (const Value* v : op->operands) users_[v].push_back(op.get());
    if (op->id == OpId::where && op->results[0]->type.rank != 0 && has_alternative(*op)) {
      groups_[op->operands[0]].push_back(op.get());
    }
    for (const auto& inner : op->regions) collect(*inner);
  }
}

// Several wheres of one condition may share parts of their long values, as sin and cos of one angle do: each of them
// computes those again in its own branch, which is rare.
void RarePaths::decide(const std::vector<const Op*>& group) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> list;
  for (const Op* where : group) list_operands_first(where->operands[1], seen, list);
  if (list.size() < shortest || seen.size() > longest) return;
  std::unordered_set<const Value*> own;
  const auto is_ours = [&](const Value* v, const Op* user) {
    if (own.contains(user->results.empty() ? nullptr : user->results[0])) return true;
    const bool taken = user->id == OpId::where && user->operands[1] == v && user->operands[2] != v;
    return taken && std::find(group.begin(), group.end(), user) != group.end();
  };
  // Users come first, so each value meets a settled answer.
  for (auto v = list.rbegin(); v != list.rend(); ++v) {
    const auto& users = users_.at(*v);
    if (std::all_of(users.begin(), users.end(), [&](const Op* u) { return is_ours(*v, u); })) own.insert(*v);
  }
  for (const Op* where : group) {
    std::unordered_set<const Value*> reached;
    std::vector<const Value*> path;
    list_operands_first(where->operands[1], reached, path);
    std::erase_if(path, [&](const Value* v) { return !own.contains(v); });
    if (path.size() < shortest) continue;
    std::vector<const Value*>& before = before_[where];
    for (const Value* v : path) {
      for (const Value* x : v->def->operands) {
        if (!own.contains(x) && !is_constant(x) && std::find(before.begin(), before.end(), x) == before.end()) {
          before.push_back(x);
        }
      }
    }
  }
}

}  // namespace tileweave::codegen
