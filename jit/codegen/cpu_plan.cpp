// Planning: which lazy values are kept, and the order and grouping of tasks. See cpu_plan.h.
// Between the expanded tile IR and the nest emitter.
#include "tileweave/jit/codegen/cpu_plan.h"

#include <algorithm>
#include <unordered_map>

#include "tileweave/jit/codegen/cpu_walk.h"
#include "tileweave/jit/codegen/volatile_access.h"

namespace tileweave::codegen::cpu {

using ir::Op, ir::OpId, ir::Region, ir::Value;

namespace {

// From this cost on, one store and one load of a buffer in the first-level cache is cheaper than computing again.
constexpr int keep_cost = 8;
// Inside a loop a value would be computed many times.
constexpr int keep_cost_in_loop = 3;

bool is_control(const Op& op) { return op.id == OpId::for_ || op.id == OpId::if_ || op.id == OpId::while_; }
bool is_loop(const Op& op) { return op.id == OpId::for_ || op.id == OpId::while_; }
bool is_terminator(const Op& op) { return op.id == OpId::yield || op.id == OpId::condition; }

int op_cost(const Op& op) {
  switch (op.id) {
    case OpId::div:
    case OpId::rem:
    case OpId::floor_div:
    case OpId::floor_mod:
    case OpId::cdiv:
      return is_float(op.results[0]->type.elem) && op.id == OpId::div ? 4 : 24;
    case OpId::sqrt:
    case OpId::load_ptr:
      return 4;
    case OpId::convert:
      return is_narrow_float(op.operands[0]->type.elem) || is_narrow_float(op.results[0]->type.elem) ? 3 : 1;
    case OpId::constant:
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::reshape:
    case OpId::trans:
    case OpId::bitcast:
    case OpId::load:
    case OpId::inside:
    case OpId::iota:
      return 0;
    default:
      return 1;
  }
}

template <class F>
void for_each_op(const Op& op, F f) {
  f(op);
  for (const auto& r : op.regions) {
    for (const auto& inner : r->ops) for_each_op(*inner, f);
  }
}

// The memory ops inside a control op, or the op itself.
std::vector<const Op*> memory_ops(const Op& op, bool writes) {
  std::vector<const Op*> list;
  for_each_op(op, [&](const Op& o) {
    const auto want = writes ? ir::Effects::writes : ir::Effects::reads;
    if (ir::op_info(o.id).effects == want) list.push_back(&o);
  });
  return list;
}

bool defined_inside(const Value* v, const Op& control) {
  const Region* r = v->def != nullptr ? v->def->parent : v->region;
  for (; r != nullptr && r->parent != nullptr; r = r->parent->parent) {
    if (r->parent == &control) return true;
  }
  return false;
}

}  // namespace

int cost_of(const Value* v, const std::unordered_set<const Value*>& kept) {
  Walk walk(kept);
  walk.from(v, identity_map(v->type.rank), true);
  int cost = 0;
  std::unordered_set<const Value*> counted;
  for (const auto& [lazy, map] : walk.found().lazy) {
    // What has fewer elements is computed outside the innermost loop.
    if (lazy->type.elements() * 2 > v->type.elements() && counted.insert(lazy).second) cost += op_cost(*lazy->def);
  }
  return cost;
}

Planner::Planner(const ir::Function& f) : f_(f), in_order_(f.options.debug >= 2) { scan(f.body()); }

namespace {
// For a debugger: what the user named is computed at its own line, and so is a load.
bool is_step_of_its_own(const Op& op) {
  if (op.id == OpId::debug_value) return is_lazy(op.operands[0]);
  return (op.id == OpId::load || op.id == OpId::load_ptr) && is_lazy(op.results[0]);
}
}  // namespace

// What must be kept whatever the order of tasks.
void Planner::scan(const Region& r) {
  for (const auto& op : r.ops) {
    if (in_order_ && is_step_of_its_own(*op))
      kept_.insert(op->id == OpId::debug_value ? op->operands[0] : op->results[0]);
    const bool loads = op->id == OpId::load || op->id == OpId::load_ptr;
    if (loads && is_volatile(*op) && is_lazy(op->results[0])) kept_.insert(op->results[0]);  // performed once
    if (op->id == OpId::reshape && is_lazy(op->results[0]) && !is_axis_reshape(*op) && is_lazy(op->operands[0])) {
      kept_.insert(op->operands[0]);
    }
    if (is_whole_op(*op)) {
      for (const Value* v : op->operands) {
        if (is_lazy(v)) kept_.insert(v);
      }
    }
    if (op->id == OpId::broadcast && is_lazy(op->operands[0]) && cost_of(op->operands[0], kept_) >= keep_cost) {
      kept_.insert(op->operands[0]);
    }
    if (is_control(*op)) keep_for_nested(*op);
    for (const auto& inner : op->regions) scan(*inner);
  }
}

// Values from outside a control op that its body computes lazily: each is kept where a loop would repeat much work, or
// a store in the body may change what it loads.
void Planner::keep_for_nested(const Op& control) {
  const auto stores = memory_ops(control, true);
  const auto changes = [&](const Op& load) {
    return std::any_of(stores.begin(), stores.end(), [&](const Op* s) { return may_conflict(f_, load, *s); });
  };
  std::unordered_set<const Value*> outer;
  for_each_op(control, [&](const Op& op) {
    for (const Value* v : op.operands) {
      if (&op != &control && is_lazy(v) && !defined_inside(v, control)) outer.insert(v);
    }
  });
  for (const Value* v : outer) {
    if (kept_.contains(v)) continue;
    if (is_loop(control) && cost_of(v, kept_) >= keep_cost_in_loop) {
      kept_.insert(v);
      continue;
    }
    Walk walk(kept_);
    walk.from(v, identity_map(v->type.rank));
    for (const auto& [lazy, map] : walk.found().lazy) {
      const OpId id = lazy->def->id;
      if ((id == OpId::load || id == OpId::load_ptr) && changes(*lazy->def)) kept_.insert(lazy);
    }
  }
}

// The plan of one region: nodes with dependences, levels, groups.
class RegionPlanner {
 public:
  RegionPlanner(Planner& planner, const Region& r) : planner_(planner), region_(r) {}

  RegionPlan run() {
    for (;;) {
      build_nodes();
      if (keep_changed_loads()) continue;
      if (planner_.in_order_) {
        connect();
        return finish_in_order();
      }
      find_bounds_of_keeps();
      connect();
      set_levels();
      group();
      if (keep_shared()) continue;
      return finish();
    }
  }

 private:
  struct Edge {
    std::size_t from;
    int weight;  // of an edge between tasks: 0 where both can share a nest
  };
  struct Node {
    bool is_task = false;
    Task task;
    const Op* op = nullptr;
    int position = 0;
    int level = 0;
    std::size_t group = 0;
    Reach reach;
    std::vector<Edge> before;
    std::vector<const Op*> loads, stores;  // what it performs, a control op with all it holds
  };

  // --- nodes

  void build_nodes() {
    nodes_.clear();
    maker_.clear();
    position_.clear();
    int position = 0;
    stores_.clear();
    for (const auto& op : region_.ops) {
      position_[op.get()] = ++position;
      for (const Op* store : memory_ops(*op, true)) stores_.emplace_back(position, store);
    }
    for (const auto& op : region_.ops) {
      if (!op->results.empty() && is_lazy(op->results[0])) {
        if (planner_.kept_.contains(op->results[0])) add_keep(op->results[0], position_[op.get()], -1);
      } else if (is_terminator(*op)) {
        add_yields(*op);
      } else if (is_task_op(*op)) {
        add_task(*op);
      } else {
        add_op(*op);
      }
    }
  }

  static bool is_task_op(const Op& op) {
    switch (op.id) {
      case OpId::store:
      case OpId::store_ptr:
        return !is_unit(stored_value(op));
      case OpId::reduce:
      case OpId::arg_reduce:
        return !is_unit(op.operands[0]);
      default:
        return is_whole_op(op);
    }
  }

  void add_task(const Op& op) {
    Node n;
    n.is_task = true;
    n.op = &op;
    n.position = position_[&op];
    Task& t = n.task;
    t.op = &op;
    Walk walk(planner_.kept_);
    if (is_whole_op(op)) {
      t.kind = Task::Kind::whole;
      t.space = op.results[0]->type;
      AxisMap whole;
      whole.whole = true;
      for (const Value* v : op.operands) walk.from(v, whole);
      // Scalars from around the region of a scan or fold.
      for (const auto& r : op.regions) {
        for (const auto& inner : r->ops) {
          for (const Value* v : inner->operands) {
            if (v->region != r.get() && (v->def == nullptr || v->def->parent != r.get())) walk.from(v, AxisMap{});
          }
        }
      }
    } else {
      const bool stores = op.id == OpId::store || op.id == OpId::store_ptr;
      t.kind = stores ? Task::Kind::store : op.id == OpId::reduce ? Task::Kind::reduce : Task::Kind::arg_reduce;
      t.value = stores ? stored_value(op) : op.operands[0];
      t.space = t.value->type;
      if (!stores) t.reduce_axis = static_cast<int>(op.attrs.get_int(ir::AttrKey::axis));
      const AxisMap m = identity_map(t.space.rank);
      MaskParts parts;
      if (op.id == OpId::store) parts.bounds = bounds_of(op, m);
      split_mask(mask_of(op), m, parts);
      t.bounds = std::move(parts.bounds);
      t.masks = std::move(parts.rest);
      walk.from(t.value, m);
      if (op.id == OpId::store_ptr) walk.from(op.operands[0], m);
      for (const auto& [mask, map] : t.masks) walk.from(mask, map);
      for (const Bound& b : t.bounds) walk.from(b.offset, AxisMap{});
    }
    n.reach = walk.found();
    for (const Value* r : op.results) maker_[r] = nodes_.size();
    nodes_.push_back(std::move(n));
  }

  void add_keep(const Value* v, int position, int yield) {
    Node n;
    n.is_task = true;
    n.position = position;
    n.task.kind = Task::Kind::keep;
    n.task.value = v;
    n.task.yield = yield;
    n.task.space = v->type;
    Walk walk(planner_.kept_);
    if (yield >= 0 && planner_.kept_.contains(v)) {
      n.reach.buffers.emplace_back(v, identity_map(v->type.rank));
    } else {
      walk.from(v, identity_map(v->type.rank), true);
      n.reach = walk.found();
    }
    if (yield < 0) maker_[v] = nodes_.size();
    nodes_.push_back(std::move(n));
  }

  void add_yields(const Op& end) {
    for (std::size_t i = 0; i < end.operands.size(); ++i) {
      if (!is_unit(end.operands[i])) add_keep(end.operands[i], position_[&end], static_cast<int>(i));
    }
  }

  void add_op(const Op& op) {
    Node n;
    n.op = &op;
    n.position = position_[&op];
    Walk walk(planner_.kept_);
    for (const Value* v : op.operands) walk.from(v, identity_map(v->type.rank));
    n.reach = walk.found();
    // The initial tiles of a loop are put into its buffers when it is met; what they load is read there.
    for (const Value* r : op.results) maker_[r] = nodes_.size();
    nodes_.push_back(std::move(n));
  }

  // --- memory

  int position_of(const Op& op) const {
    const auto at = position_.find(&op);
    return at == position_.end() ? 0 : at->second;  // outside this region: before it
  }

  // Keeps loads that a store between them and their consumer may change. Whether there were any.
  bool keep_changed_loads() {
    bool found = false;
    for (const Node& n : nodes_) {
      for (const auto& [v, map] : n.reach.lazy) {
        if (v->def->id != OpId::load && v->def->id != OpId::load_ptr) continue;
        if (n.is_task && n.task.kind == Task::Kind::keep && n.task.yield < 0 && n.task.value == v) continue;
        if (is_changed(*v->def, map, n)) found |= planner_.kept_.insert(v).second;
      }
    }
    return found;
  }

  bool is_changed(const Op& load, const AxisMap& map, const Node& consumer) const {
    const int from = position_of(load);
    if (from == 0) return false;  // the control op's rule has seen to it
    for (const auto& [at, store] : stores_) {
      if (at <= from || at > consumer.position || !may_conflict(planner_.f_, load, *store)) continue;
      const bool own = store == consumer.op;
      if (own && is_same_block(load, *store) && is_identity(map, load.results[0]->type)) continue;
      return true;
    }
    return false;
  }

  // Whether each lane of the load is the same lane of the store, so that writing a lane changes no other.
  static bool is_same_block(const Op& load, const Op& store) {
    if (load.id != OpId::load || store.id != OpId::store || load.operands[0] != store.operands[0]) return false;
    for (int k = 0; k < load.operands[0]->type.rank; ++k) {
      const auto i = 1 + static_cast<std::size_t>(k);
      if (load.operands[i] != store.operands[i]) return false;
    }
    return stored_value(store)->type.extents == load.results[0]->type.extents;
  }

  // --- what is never read of a kept value

  void find_bounds_of_keeps() {
    for (std::size_t k = nodes_.size(); k-- > 0;) {
      Node& keep = nodes_[k];
      if (!keep.is_task || keep.task.kind != Task::Kind::keep || keep.task.yield >= 0) continue;
      bool first = true;
      std::vector<Bound> common;
      for (const Node& n : nodes_) {
        for (const auto& [v, map] : n.reach.buffers) {
          if (v != keep.task.value) continue;
          const bool aligned = n.is_task && n.task.space == keep.task.space && is_identity(map, v->type);
          const std::vector<Bound> none, &theirs = aligned ? n.task.bounds : none;
          if (first) {
            common = theirs;
          } else {
            std::erase_if(common, [&](const Bound& b) { return !contains(theirs, b); });
          }
          first = false;
        }
        if (n.op != nullptr && is_control(*n.op) && is_used_inside(v_of(keep), *n.op)) {
          common.clear();
          first = false;
        }
      }
      // Its offsets must be known by then.
      std::erase_if(common, [&](const Bound& b) { return !is_known_at(b.offset, keep.position); });
      keep.task.bounds = common;
      for (const Bound& b : common) keep.reach.units.push_back(b.offset);
    }
  }
  static const Value* v_of(const Node& keep) { return keep.task.value; }

  bool is_known_at(const Value* v, int position) const { return v->def == nullptr || position_of(*v->def) < position; }

  static bool is_used_inside(const Value* v, const Op& control) {
    bool used = false;
    for_each_op(control, [&](const Op& op) {
      if (&op != &control) used |= std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end();
    });
    return used || is_reached_inside(v, control);
  }
  // Through lazy values from outside that the body names.
  static bool is_reached_inside(const Value* v, const Op& control) {
    const std::unordered_set<const Value*> none;
    bool used = false;
    for_each_op(control, [&](const Op& op) {
      for (const Value* x : op.operands) {
        if (used || !is_lazy(x) || defined_inside(x, control)) continue;
        Walk walk(none);
        walk.from(x, identity_map(x->type.rank));
        for (const auto& [lazy, map] : walk.found().lazy) used |= lazy == v;
        for (const auto& [buffer, map] : walk.found().buffers) used |= buffer == v;
      }
    });
    return used;
  }

  // --- dependences

  void connect() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& n = nodes_[i];
      n.before.clear();
      for (const Value* v : n.reach.units) depend(n, v, 1);
      for (const auto& [v, map] : n.reach.buffers) {
        const auto at = maker_.find(v);
        if (at != maker_.end()) depend(n, v, can_share(nodes_[at->second], n, map) ? 0 : 1);
      }
      const bool barrier = n.op != nullptr && is_control(*n.op);
      for (std::size_t k = 0; k < i; ++k) {
        const Node& other = nodes_[k];
        const bool both_talk = talks_to_host(n) && talks_to_host(other);
        if (barrier || both_talk || (other.op != nullptr && is_control(*other.op))) n.before.push_back({k, 1});
      }
    }
    for (Node& n : nodes_) find_accesses(n);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].loads.empty() && nodes_[i].stores.empty()) continue;
      for (std::size_t k = 0; k < i; ++k) order_memory(nodes_[k], k, nodes_[i]);
    }
    order_yields();
  }

  static bool talks_to_host(const Node& n) {
    return n.op != nullptr && ir::op_info(n.op->id).effects == ir::Effects::host;
  }

  void depend(Node& n, const Value* v, int weight) {
    const auto at = maker_.find(v);
    if (at != maker_.end() && &nodes_[at->second] != &n) n.before.push_back({at->second, weight});
  }

  static bool can_share(const Node& keep, const Node& n, const AxisMap& map) {
    return keep.is_task && keep.task.kind == Task::Kind::keep && n.is_task && n.task.kind != Task::Kind::whole &&
           n.task.space == keep.task.space && is_identity(map, keep.task.value->type) &&
           n.task.bounds == keep.task.bounds;
  }

  static void find_accesses(Node& n) {
    n.loads.clear();
    n.stores.clear();
    for (const auto& [v, map] : n.reach.lazy) {
      if (v->def->id == OpId::load || v->def->id == OpId::load_ptr) n.loads.push_back(v->def);
    }
    if (n.op == nullptr) return;
    for (const Op* op : memory_ops(*n.op, false)) n.loads.push_back(op);
    n.stores = memory_ops(*n.op, true);
  }

  // Nodes are in program order, and so are their conflicting accesses: a load that a later node performs is kept where
  // a store comes between.
  void order_memory(const Node& a, std::size_t first, Node& b) {
    const auto conflict = [&](const std::vector<const Op*>& x, const std::vector<const Op*>& y) {
      return std::any_of(x.begin(), x.end(), [&](const Op* p) {
        return std::any_of(y.begin(), y.end(), [&](const Op* q) { return may_conflict(planner_.f_, *p, *q); });
      });
    };
    if (conflict(a.stores, b.loads) || conflict(a.stores, b.stores) || conflict(a.loads, b.stores)) {
      b.before.push_back({first, 1});
    }
  }

  // A tile may replace the argument it is carried in where nothing else still reads that: the others come first.
  void order_yields() {
    in_place_.assign(region_.ops.empty() ? 0 : region_.ops.back()->operands.size(), false);
    const std::size_t skip = region_.parent != nullptr && region_.parent->id == OpId::for_ ? 1 : 0;
    for (std::size_t y = 0; y < nodes_.size(); ++y) {
      Node& n = nodes_[y];
      if (!n.is_task || n.task.yield < 0) continue;
      const auto i = static_cast<std::size_t>(n.task.yield);
      if (region_.parent == nullptr || !is_loop(*region_.parent) || i + skip >= region_.args.size()) continue;
      const Value* argument = region_.args[i + skip];
      bool safe = region_.ops.back()->id == OpId::yield;
      for (std::size_t k = 0; k < nodes_.size() && safe; ++k) {
        for (const auto& [v, map] : nodes_[k].reach.buffers) {
          if (v != argument) continue;
          if (k == y) {
            safe = is_identity(map, v->type);
          } else {
            safe = nodes_[k].task.yield < 0 || !nodes_[k].is_task;
          }
          if (!safe) break;
        }
      }
      if (!safe) continue;
      in_place_[i] = true;
      for (std::size_t k = 0; k < y; ++k) {
        const auto& reads = nodes_[k].reach.buffers;
        if (std::any_of(reads.begin(), reads.end(), [&](const auto& r) { return r.first == argument; })) {
          n.before.push_back({k, 1});
        }
      }
    }
  }

  // --- order

  void set_levels() {
    for (Node& n : nodes_) {
      n.level = n.is_task ? 1 : 0;
      for (const Edge& e : n.before) {
        const Node& other = nodes_[e.from];
        const int step = n.is_task ? (other.is_task ? e.weight : 1) : 0;
        n.level = std::max(n.level, other.level + step);
      }
    }
  }

  // The axis along which a nest's vectors lie: the last one that is longer than 1.
  static int vector_axis(const ir::Type& t) {
    for (int k = t.rank - 1; k >= 0; --k) {
      if (t.extents[static_cast<std::size_t>(k)] != 1) return k;
    }
    return -1;
  }

  struct Group {
    int level = 0;
    const Task* like = nullptr;
    int inner_axis = -1;  // a reduction along another axis than the vectors'
    std::vector<std::size_t> members;
  };

  void group() {
    groups_.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].is_task) continue;
      Node& n = nodes_[i];
      std::size_t least = 0;
      for (const Edge& e : n.before) {
        if (nodes_[e.from].is_task && nodes_[e.from].level == n.level) least = std::max(least, nodes_[e.from].group);
      }
      n.group = place(i, least);
    }
  }

  std::size_t place(std::size_t i, std::size_t least) {
    const Node& n = nodes_[i];
    const Task& t = n.task;
    const int inner = t.reduce_axis >= 0 && t.reduce_axis != vector_axis(t.space) ? t.reduce_axis : -1;
    for (std::size_t g = least; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      if (group.level != n.level || t.kind == Task::Kind::whole || group.like->kind == Task::Kind::whole) continue;
      if (group.like->space.extents != t.space.extents || group.like->space.rank != t.space.rank) continue;
      if (group.like->bounds != t.bounds) continue;
      if (inner >= 0 && group.inner_axis >= 0 && inner != group.inner_axis) continue;
      if (inner >= 0 && group.inner_axis < 0 && has_reduction(group)) continue;
      if (inner < 0 && group.inner_axis >= 0 && t.reduce_axis >= 0) continue;
      if (inner >= 0) group.inner_axis = inner;
      group.members.push_back(i);
      return g;
    }
    groups_.push_back({n.level, &n.task, inner, {i}});
    return groups_.size() - 1;
  }

  bool has_reduction(const Group& g) const {
    return std::any_of(g.members.begin(), g.members.end(),
                       [&](std::size_t i) { return nodes_[i].task.reduce_axis >= 0; });
  }

  // --- values that several nests would compute

  // Keeps the topmost expensive values that more than one group reaches. Whether there were any.
  bool keep_shared() {
    if (++rounds_ > 4) return false;
    std::unordered_map<const Value*, std::set<std::size_t>> reached;
    for (const Node& n : nodes_) {
      if (!n.is_task) continue;
      for (const auto& [v, map] : n.reach.lazy) {
        if (v->def->parent == &region_ && !planner_.kept_.contains(v)) reached[v].insert(n.group);
      }
    }
    std::vector<const Value*> chosen;
    for (const auto& op : region_.ops) {  // in program order, so that plans are the same from run to run
      const Value* v = op->result();
      const auto at = v == nullptr ? reached.end() : reached.find(v);
      if (at == reached.end() || at->second.size() < 2 || cost_of(v, planner_.kept_) < keep_cost) continue;
      if (!is_covered(v, at->second, reached)) chosen.push_back(v);
    }
    for (const Value* v : chosen) planner_.kept_.insert(v);
    return !chosen.empty();
  }

  // Whether keeping some user of v does as well.
  bool is_covered(const Value* v, const std::set<std::size_t>& groups,
                  const std::unordered_map<const Value*, std::set<std::size_t>>& reached) const {
    for (const auto& op : region_.ops) {
      if (std::find(op->operands.begin(), op->operands.end(), v) == op->operands.end()) continue;
      const Value* user = op->result();
      const auto at = user == nullptr ? reached.end() : reached.find(user);
      if (at == reached.end()) continue;
      if (user->type.elements() > v->type.elements()) continue;
      if (std::includes(at->second.begin(), at->second.end(), groups.begin(), groups.end())) return true;
    }
    return false;
  }

  // --- the result

  RegionPlan finish() {
    RegionPlan plan;
    int last = 0;
    for (const Node& n : nodes_) last = std::max(last, n.level);
    for (int level = 0; level <= last; ++level) {
      for (const Group& g : groups_) {
        if (g.level != level) continue;
        Step step;
        for (const std::size_t i : g.members) step.tasks.push_back(nodes_[i].task);
        plan.steps.push_back(std::move(step));
      }
      for (const Node& n : nodes_) {
        if (!n.is_task && n.level == level) plan.steps.push_back({{}, n.op, {}});
      }
    }
    plan.in_place = in_place_;
    return plan;
  }

  // Every node by itself, as the user wrote them.
  RegionPlan finish_in_order() {
    RegionPlan plan;
    for (const Node& n : nodes_) {
      Step step;
      if (n.is_task) {
        step.tasks = {n.task};
      } else {
        step.op = n.op;
      }
      plan.steps.push_back(std::move(step));
    }
    plan.in_place = in_place_;
    return plan;
  }

  Planner& planner_;
  const Region& region_;
  std::vector<Node> nodes_;
  std::unordered_map<const Value*, std::size_t> maker_;
  std::unordered_map<const Op*, int> position_;
  std::vector<std::pair<int, const Op*>> stores_;  // in program order, those inside control ops too
  std::vector<Group> groups_;
  std::vector<bool> in_place_;
  int rounds_ = 0;
};

RegionPlan Planner::plan(const Region& r) { return RegionPlanner(*this, r).run(); }

}  // namespace tileweave::codegen::cpu
