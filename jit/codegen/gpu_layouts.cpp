// Layout assignment: seeds at the accesses that move most bytes, spread breadth first over the ops.
// Between the tile IR and the GPU lowering, which converts wherever a use wants another layout than this map gives.
#include "tileweave/jit/codegen/gpu_layouts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/gpu_dot_plan.h"

namespace tileweave::codegen {
namespace {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Region;
using ir::Value;

constexpr int max_warps = 32;
constexpr std::int64_t access_bytes = 16;
constexpr std::int64_t smallest_moved_tile = 1024;            // elements: below, an access in any layout costs little
constexpr std::int64_t largest_conversion_bytes = 64 * 1024;  // fits every target, with room for a second block

// Ops that combine or order the lanes along their axis: warps had better not lie along it.
bool works_along_axis(const Op& op) {
  switch (op.id) {
    case OpId::reduce:
    case OpId::arg_reduce:
    case OpId::scan:
    case OpId::fold:
    case OpId::sort:
    case OpId::argsort:
      return true;
    default:
      return false;
  }
}

bool is_distributed(const Value* v) { return !v->type.is_view() && v->type.rank > 0; }

template <class F>
void for_each_op(const Region& r, F&& f) {
  for (const auto& op : r.ops) {
    f(*op);
    for (const auto& inner : op->regions) for_each_op(*inner, f);
  }
}

// The tile that an access moves; null for other ops.
const Value* accessed_tile(const Op& op) {
  switch (op.id) {
    case OpId::load:
    case OpId::load_ptr:
    case OpId::atomic_rmw:
    case OpId::atomic_cas:
      return op.results[0];
    case OpId::store:
      return op.operands[static_cast<std::size_t>(1 + op.operands[0]->type.rank)];
    case OpId::store_ptr:
      return op.operands[1];
    default:
      return nullptr;
  }
}

std::int64_t bytes_of(const Value* v) { return v->type.elements() * dtype_bytes(v->type.elem); }

const ir::ViewFacts* facts_of(const ir::Function& f, const Value* view) {
  for (const ir::Param& p : f.params) {
    if (p.value == view) return &p.facts;
  }
  return nullptr;
}

// The axes of a tile from the one whose neighbours are neighbours in memory to the slowest.
std::vector<int> memory_order(const ir::Function& f, const Op& op, int rank) {
  std::vector<int> order;
  for (int a = rank - 1; a >= 0; --a) order.push_back(a);
  if (op.id != OpId::load && op.id != OpId::store) return order;
  const ir::ViewFacts* facts = facts_of(f, op.operands[0]);
  if (facts == nullptr) return order;
  const auto unit = std::find_if(order.begin(), order.end(), [&](int a) { return (facts->unit_stride >> a & 1) != 0; });
  if (unit != order.end()) std::rotate(order.begin(), unit, unit + 1);
  return order;
}

}  // namespace

ir::TileShape shape_of(const ir::Type& t) { return {t.shape()}; }

int choose_warps(const ir::Function& f) {
  if (f.options.warps > 0)
    return std::min(max_warps, static_cast<int>(std::bit_ceil(static_cast<unsigned>(f.options.warps))));
  std::int64_t bytes = 0, elements = 1, accumulators = 0;
  bool reduces = false;
  for_each_op(f.body(), [&](const Op& op) {
    if (const Value* tile = accessed_tile(op)) bytes = std::max(bytes, bytes_of(tile));
    for (const Value* v : op.results) {
      if (!v->type.is_view()) elements = std::max(elements, v->type.elements());
    }
    if (op.id == OpId::dot) accumulators = std::max(accumulators, op.results[0]->type.elements());
    if (works_along_axis(op) && op.operands[0]->type.elements() > 32) reduces = true;
  });
  std::int64_t threads = 0;
  if (accumulators > 0) {
    threads = std::clamp<std::int64_t>(accumulators / 32, 32, 256);
  } else if (reduces) {
    threads = bytes / 64;
  } else {
    threads = std::max(std::min<std::int64_t>(bytes / access_bytes, 128), bytes / 64);
  }
  // No thread should hold more than 64 elements of a tile that memory never sees.
  threads = std::clamp<std::int64_t>(std::max(threads, elements / 64), 32, 32 * max_warps);
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(threads)) / 32);
}

bool is_relabelling(const Op& op) {
  switch (op.id) {
    case OpId::trans:
    case OpId::expand_dims:
      return true;
    case OpId::broadcast:
      return op.operands[0]->type.rank > 0;
    case OpId::reshape:
      return op.operands[0]->type.rank > 0 && op.results[0]->type.rank > 0 &&
             !shape_of(op.operands[0]->type).is_padded() && !shape_of(op.results[0]->type).is_padded();
    default:
      return false;
  }
}

std::optional<Layout> operand_layout(const Op& op, const Layout& result) {
  if (!is_relabelling(op)) return std::nullopt;
  const ir::Type& from = op.operands[0]->type;
  switch (op.id) {
    case OpId::trans: {
      const auto& perm = op.attrs.get_list(ir::AttrKey::perm);
      std::vector<int> inverse(perm.size());
      for (std::size_t i = 0; i < perm.size(); ++i) inverse[static_cast<std::size_t>(perm[i])] = static_cast<int>(i);
      return result.transpose(inverse);
    }
    case OpId::expand_dims: {
      if (from.rank == 0) return std::nullopt;
      return result.slice(static_cast<int>(op.attrs.get_int(ir::AttrKey::axis)));
    }
    case OpId::broadcast: {
      Layout l = result;
      for (int a = 0; a < from.rank; ++a) {
        if (from.extents[static_cast<std::size_t>(a)] == 1 && l.axis_bits(a) > 0) l = l.collapse(a);
      }
      return l;
    }
    default:
      return result.reshape(shape_of(from).axis_bits());
  }
}

int relabelled_register(const Op& op, const Layout& result, int r) {
  if (op.id != OpId::broadcast) return r;
  // Bits along axes that the operand does not have are left out, as Layout::collapse does.
  std::uint64_t kept = 0;
  for (int a = 0; a < result.rank(); ++a) {
    if (op.operands[0]->type.extents[static_cast<std::size_t>(a)] != 1) kept |= result.axis_mask(a);
  }
  int source = 0, next = 0;
  for (int i = 0; i < result.bits(ir::Place4::reg); ++i) {
    if ((result.bases(ir::Place4::reg)[static_cast<std::size_t>(i)] & kept) == 0) continue;
    source |= (r >> i & 1) << next++;
  }
  return source;
}

std::optional<Layout> result_layout(const Op& op, const Layout& operand) {
  switch (op.id) {
    case OpId::trans: {
      const auto& perm = op.attrs.get_list(ir::AttrKey::perm);
      return operand.transpose(std::vector<int>(perm.begin(), perm.end()));
    }
    case OpId::expand_dims:
      return operand.expand_dims(static_cast<int>(op.attrs.get_int(ir::AttrKey::axis)));
    case OpId::reshape:
      if (!is_relabelling(op)) return std::nullopt;
      return operand.reshape(shape_of(op.results[0]->type).axis_bits());
    case OpId::broadcast:
      // Only where it moves nothing.
      if (shape_of(op.results[0]->type).axis_bits() != operand.shape_bits()) return std::nullopt;
      return operand;
    case OpId::reduce:
    case OpId::arg_reduce:
    case OpId::fold:
      if (op.operands[0]->type.rank <= 1) return std::nullopt;
      return operand.slice(static_cast<int>(op.attrs.get_int(ir::AttrKey::axis)));
    default:
      return std::nullopt;
  }
}

// Spreads layouts over the ops, breadth first.
class LayoutSpreader {
 public:
  LayoutSpreader(const ir::Function& f, int warps, const DotPlans* dots, LayoutMap& map)
      : f_(f),
        warp_bits_(std::countr_zero(static_cast<unsigned>(warps))),
        dots_(dots),
        layouts_(map.layouts_),
        stores_(map.stores_) {}

  void run() {
    for_each_op(f_.body(), [&](const Op& op) { collect(op); });
    std::stable_sort(seeds_.begin(), seeds_.end(),
                     [](const Seed& a, const Seed& b) { return a.priority > b.priority; });
    if (dots_ != nullptr) assign_accumulators();
    assign_largest_blocks();
    spread();
    for (const Seed& s : seeds_) {
      if (assign(s.tile, seed_layout(s))) spread();
    }
    // What no access reaches: the largest first, row-major.
    std::stable_sort(values_.begin(), values_.end(),
                     [](const Value* a, const Value* b) { return a->type.elements() > b->type.elements(); });
    for (const Value* v : values_) {
      if (assign(v, default_layout(v))) spread();
    }
  }

 private:
  struct Seed {
    const Op* op;
    const Value* tile;
    std::int64_t priority;
  };

  void collect(const Op& op) {
    for (const auto& r : op.regions) {
      for (const Value* a : r->args) note(a);
    }
    for (const Value* v : op.results) note(v);
    for (const Value* v : op.operands) users_[v].push_back(&op);
    if (works_along_axis(op)) {
      reduced_[op.operands[0]->type.shape()].insert(static_cast<int>(op.attrs.get_int(ir::AttrKey::axis)));
    }
    const Value* tile = accessed_tile(op);
    if (tile != nullptr && is_distributed(tile)) {
      // Blocks of views before gathers, many elements before few; among equals the first.
      const bool block = op.id == OpId::load || op.id == OpId::store;
      seeds_.push_back({&op, tile, tile->type.elements() * 2 + (block ? 1 : 0)});
      auto& widest = widest_[tile->type.elements()];
      widest = std::max(widest, dtype_bytes(tile->type.elem));
    }
  }
  void note(const Value* v) {
    if (is_distributed(v)) values_.push_back(v);
  }

  // Loads of whole tiles keep a layout that memory likes, and so do stores: what goes between converts.
  void assign_accumulators() {
    spares_loads_ = true;
    for_each_op(f_.body(), [&](const Op& op) {
      const DotPlan* plan = dots_->of(op);
      if (plan != nullptr && assign(op.results[0], plan->accumulator)) spread();
    });
    spares_loads_ = false;
    for (const Seed& s : seeds_) {
      if (s.op->id != OpId::store || !layouts_.contains(s.tile)) continue;
      if (bytes_of(s.tile) > largest_conversion_bytes || s.tile->type.elements() < smallest_moved_tile) continue;
      stores_.emplace(s.op, seed_layout(s));
    }
  }

  // The largest blocks all move as memory likes it: where one is transposed on the way, a pass through shared memory
  // costs less than a scattered access. Tiles that shared memory cannot hold follow the first of them.
  void assign_largest_blocks() {
    if (seeds_.empty()) return;
    const std::int64_t most = seeds_[0].tile->type.elements();
    if (most * widest_.at(most) > largest_conversion_bytes) return;
    for (const Seed& s : seeds_) {
      const bool block = s.op->id == OpId::load || s.op->id == OpId::store;
      if (block && s.tile->type.elements() == most) assign(s.tile, seed_layout(s));
    }
  }

  Layout seed_layout(const Seed& s) const {
    const int bytes = widest_.at(s.tile->type.elements());
    return make(s.tile, memory_order(f_, *s.op, s.tile->type.rank), bytes);
  }
  Layout default_layout(const Value* v) const {
    std::vector<int> order;
    for (int a = v->type.rank - 1; a >= 0; --a) order.push_back(a);
    return make(v, order, v->type.is_pointer() ? 8 : dtype_bytes(v->type.elem));
  }
  // As many neighbours a thread as make 16 bytes of the widest element, but never so many that lanes stay idle. Warps
  // go first along axes that are not reduced, so that reductions stay inside a warp.
  Layout make(const Value* v, const std::vector<int>& order, int bytes) const {
    const std::vector<int> bits = shape_of(v->type).axis_bits();
    int total = 0;
    for (int b : bits) total += b;
    const int vector_bits = std::countr_zero(static_cast<std::uint64_t>(access_bytes / bytes));
    const int spare = std::max(0, total - 5 - warp_bits_);
    const auto reduced = reduced_.find(v->type.shape());
    std::vector<int> warp_order;
    if (reduced != reduced_.end()) {
      for (int a : order) {
        if (!reduced->second.contains(a)) warp_order.push_back(a);
      }
      for (int a : order) {
        if (reduced->second.contains(a)) warp_order.push_back(a);
      }
    }
    return ir::blocked_layout(bits, order, std::min(vector_bits, spare), warp_bits_, warp_order);
  }

  bool assign(const Value* v, const Layout& l) {
    if (!is_distributed(v)) return false;
    if (spares_loads_ && v->def != nullptr && v->def->id == OpId::load && v->type.elements() >= smallest_moved_tile) {
      return false;
    }
    if (!layouts_.emplace(v, l).second) return false;
    queue_.push_back(v);
    return true;
  }
  void spread() {
    while (!queue_.empty()) {
      const Value* v = queue_.front();
      queue_.pop_front();
      const Layout l = layouts_.at(v);
      if (v->def != nullptr) through(*v->def, v, l);
      if (v->region != nullptr && v->region->parent != nullptr) through(*v->region->parent, v, l);
      for (const Op* user : users_[v]) through(*user, v, l);
    }
  }

  // `v`, which has layout `l`, takes part in `op`: gives its neighbours there their layouts.
  void through(const Op& op, const Value* v, const Layout& l) {
    switch (op.id) {
      case OpId::trans:
      case OpId::expand_dims:
      case OpId::broadcast:
      case OpId::reshape:
        if (v == op.results[0]) {
          if (const auto from = operand_layout(op, l)) assign(op.operands[0], *from);
        } else if (const auto to = result_layout(op, l)) {
          assign(op.results[0], *to);
        }
        return;
      case OpId::reduce:
      case OpId::arg_reduce:
      case OpId::fold:
        if (v->def == &op) return;
        for (const Value* x : op.operands) assign(x, l);
        if (const auto to = result_layout(op, l)) {
          for (const Value* x : op.results) assign(x, *to);
        }
        return;
      case OpId::dot:
        if (v == op.operands[0] || v == op.operands[1]) return;
        assign(op.operands[2], l);
        assign(op.results[0], l);
        return;
      case OpId::for_:
      case OpId::if_:
      case OpId::while_:
        return through_control(op, v, l);
      case OpId::yield:
      case OpId::condition:
        if (op.parent->parent != nullptr) through_control(*op.parent->parent, v, l);
        return;
      default:
        // Element by element: accesses, masks and pointers included.
        for (const Value* x : op.operands) assign_same_shape(x, v, l);
        for (const Value* x : op.results) assign_same_shape(x, v, l);
    }
  }
  void assign_same_shape(const Value* x, const Value* like, const Layout& l) {
    if (is_distributed(x) && x->type.rank == like->type.rank && x->type.extents == like->type.extents) assign(x, l);
  }

  // A carried value has one layout everywhere.
  void through_control(const Op& op, const Value* v, const Layout& l) {
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      const std::vector<const Value*> same = carried(op, i);
      if (std::find(same.begin(), same.end(), v) == same.end()) continue;
      for (const Value* x : same) assign(x, l);
    }
  }
  static std::vector<const Value*> carried(const Op& op, std::size_t i) {
    std::vector<const Value*> same{op.results[i]};
    const std::size_t first_operand = op.id == OpId::for_ ? 3 : op.id == OpId::while_ ? 0 : op.operands.size();
    if (first_operand + i < op.operands.size()) same.push_back(op.operands[first_operand + i]);
    for (const auto& r : op.regions) {
      const std::size_t first_arg = op.id == OpId::for_ ? 1 : 0;
      if (first_arg + i < r->args.size()) same.push_back(r->args[first_arg + i]);
      const Op& end = *r->ops.back();
      const std::size_t first_value = end.id == OpId::condition ? 1 : 0;
      same.push_back(end.operands[first_value + i]);
    }
    return same;
  }

  const ir::Function& f_;
  const int warp_bits_;
  const DotPlans* dots_;
  bool spares_loads_ = false;
  std::unordered_map<const Value*, Layout>& layouts_;
  std::unordered_map<const Op*, Layout>& stores_;
  std::vector<Seed> seeds_;
  std::vector<const Value*> values_;
  std::unordered_map<const Value*, std::vector<const Op*>> users_;
  std::map<ir::Extents, std::set<int>> reduced_;
  std::map<std::int64_t, int> widest_;  // by a tile's number of elements: the widest element accessed
  std::deque<const Value*> queue_;
};

LayoutMap::LayoutMap(const ir::Function& f, int warps, const DotPlans* dots) {
  LayoutSpreader(f, warps, dots != nullptr && dots->empty() ? nullptr : dots, *this).run();
}

const Layout& LayoutMap::of_access(const Op& op) const {
  const auto at = stores_.find(&op);
  return at != stores_.end() ? at->second : of(accessed_tile(op));
}

const Layout& LayoutMap::of(const Value* v) const {
  const auto at = layouts_.find(v);
  if (at == layouts_.end()) throw_internal_error(std::source_location::current(), "a tile has no layout");
  return at->second;
}

}  // namespace tileweave::codegen
