// Blocks of the next program, asked for while this one computes.
// Part of the plan: see Fetch in cpu_plan.h. Called by cpu_kernel.cpp on the plan of a kernel's body.
//
// A kernel that goes over its row several times waits for memory in the first pass and computes in the others; one that
// computes much at each element outruns what the hardware fetches by itself, which ends at a page. The next program's
// block is known, so the last pass over this one asks for it.
#include <map>
#include <optional>

#include "tileweave/jit/codegen/cpu_plan.h"
#include "tileweave/jit/codegen/cpu_walk.h"

namespace tileweave::codegen::cpu {

using ir::Op, ir::OpId, ir::Value;

namespace {

// Smaller blocks are not worth it; larger ones do not stay in the second-level cache beside this program's.
constexpr std::int64_t smallest_block = 512, largest_block = 128 << 10;
// A single pass that computes less waits for memory anyway.
constexpr int long_pass = 16;

std::optional<std::int64_t> constant_of(const Value* v) {
  if (v->def == nullptr || v->def->id != OpId::constant) return std::nullopt;
  return v->def->attrs.get_int(ir::AttrKey::value);
}

// By how much an offset grows from one program of the first axis to the next; null where that is not plain to see.
std::optional<std::int64_t> growth(const Value* v) {
  if (v->def == nullptr) return 0;  // a parameter
  const Op& op = *v->def;
  switch (op.id) {
    case OpId::constant:
    case OpId::extent:
    case OpId::stride:
    case OpId::num_programs:
      return 0;
    case OpId::program_id:
      return op.attrs.get_int(ir::AttrKey::axis) == 0 ? 1 : 0;
    case OpId::mul: {
      const auto a = growth(op.operands[0]), b = growth(op.operands[1]);
      if (a && b && *a == 0 && *b == 0) return 0;
      const auto factor = constant_of(op.operands[1]);
      if (a && factor) return *a * *factor;
      const auto other = constant_of(op.operands[0]);
      if (b && other) return *b * *other;
      return std::nullopt;
    }
    case OpId::add:
    case OpId::sub: {
      const auto a = growth(op.operands[0]), b = growth(op.operands[1]);
      if (!a || !b) return std::nullopt;
      return op.id == OpId::add ? *a + *b : *a - *b;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Fetch> fetch_of(const Op& load, const AxisMap& m) {
  const ir::Type& t = load.results[0]->type;
  const std::int64_t bytes = t.elements() * dtype_bytes(t.elem);
  if (bytes < smallest_block || bytes > largest_block) return std::nullopt;
  Fetch fetch{&load, m, {}};
  bool moves = false;
  for (int k = 0; k < load.operands[0]->type.rank; ++k) {
    const auto g = growth(load.operands[1 + static_cast<std::size_t>(k)]);
    if (!g) return std::nullopt;
    fetch.growth[static_cast<std::size_t>(k)] = *g;
    moves = moves || *g != 0;
  }
  return moves ? std::optional(fetch) : std::nullopt;
}

}  // namespace

void plan_fetches(RegionPlan& body, const std::unordered_set<const Value*>& kept) {
  struct Pass {
    std::size_t step;
    AxisMap map;
    bool pays;
  };
  std::map<const Op*, Pass> passes;  // the last step that reads each load's block
  std::vector<const Op*> order;
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    int cost = 0;
    for (const Task& t : body.steps[i].tasks) {
      if (t.value != nullptr) cost += cost_of(t.value, kept);
    }
    for (const Task& t : body.steps[i].tasks) {
      if (t.value == nullptr) continue;
      Walk walk(kept);
      walk.from(t.value, identity_map(t.space.rank), t.kind == Task::Kind::keep && t.yield < 0);
      for (const auto& [v, map] : walk.found().lazy) {
        if (v->def->id != OpId::load) continue;
        const auto [at, is_new] = passes.try_emplace(v->def, Pass{i, map, cost >= long_pass});
        if (is_new) order.push_back(v->def);
        if (at->second.step != i) at->second = {i, map, true};
      }
    }
  }
  for (const Op* load : order) {
    const Pass& p = passes.at(load);
    if (!p.pays) continue;
    if (const auto fetch = fetch_of(*load, p.map)) body.steps[p.step].fetches.push_back(*fetch);
  }
}

}  // namespace tileweave::codegen::cpu
