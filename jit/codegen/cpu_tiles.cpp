// Axis maps, bounds and aliasing: see cpu_tiles.h.
// Facts about tile IR only; nothing here emits code.
#include "tileweave/jit/codegen/cpu_tiles.h"

#include <algorithm>

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op, ir::OpId, ir::Value;

AxisMap identity_map(int rank) {
  AxisMap m;
  for (int k = 0; k < rank; ++k) m.axis[static_cast<std::size_t>(k)] = static_cast<std::int8_t>(k);
  return m;
}

bool is_identity(const AxisMap& m, const ir::Type& t) {
  if (m.whole) return false;
  for (int k = 0; k < t.rank; ++k) {
    const auto i = static_cast<std::size_t>(k);
    if (t.extents[i] != 1 && m.axis[i] != k) return false;
  }
  return true;
}

bool is_unit(const Value* v) { return !v->type.is_view() && v->type.elements() == 1; }

bool is_lazy(const Value* v) {
  if (v->def == nullptr || is_unit(v) || v->type.is_view()) return false;
  if (ir::is_elementwise(v->def->id)) return true;
  switch (v->def->id) {
    case OpId::constant:
    case OpId::iota:
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::reshape:
    case OpId::trans:
    case OpId::convert:
    case OpId::bitcast:
    case OpId::inside:
    case OpId::load:
    case OpId::ptr_add:
    case OpId::load_ptr:
      return true;
    default:
      return false;
  }
}

bool is_whole_op(const Op& op) {
  switch (op.id) {
    case OpId::dot:
    case OpId::slice:
    case OpId::cat:
    case OpId::flip:
    case OpId::gather:
    case OpId::sort:
    case OpId::argsort:
    case OpId::histogram:
    case OpId::scan:
    case OpId::fold:
      return true;
    default:
      return false;
  }
}

namespace {

// The axes of extent over 1, in order.
std::vector<std::size_t> long_axes(const ir::Type& t) {
  std::vector<std::size_t> axes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(t.rank); ++k) {
    if (t.extents[k] != 1) axes.push_back(k);
  }
  return axes;
}

}  // namespace

bool is_axis_reshape(const Op& op) {
  const ir::Type &x = op.operands[0]->type, &y = op.results[0]->type;
  const auto from = long_axes(x), to = long_axes(y);
  if (from.size() != to.size()) return false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (x.extents[from[i]] != y.extents[to[i]]) return false;
  }
  return true;
}

AxisMap operand_map(const Op& op, std::size_t i, const AxisMap& result) {
  const ir::Type& x = op.operands[i]->type;
  AxisMap m;
  switch (op.id) {
    case OpId::broadcast:
      for (std::size_t k = 0; k < static_cast<std::size_t>(x.rank); ++k)
        m.axis[k] = x.extents[k] == 1 ? -1 : result.axis[k];
      return m;
    case OpId::expand_dims: {
      const auto added = static_cast<std::size_t>(op.attrs.get_int(AttrKey::axis));
      for (std::size_t k = 0; k < static_cast<std::size_t>(x.rank); ++k) m.axis[k] = result.axis[k < added ? k : k + 1];
      return m;
    }
    case OpId::trans: {
      const auto& perm = op.attrs.get_list(AttrKey::perm);
      for (std::size_t k = 0; k < perm.size(); ++k) m.axis[static_cast<std::size_t>(perm[k])] = result.axis[k];
      return m;
    }
    case OpId::reshape: {
      if (!is_axis_reshape(op)) {
        m.whole = true;
        return m;
      }
      const auto from = long_axes(x), to = long_axes(op.results[0]->type);
      for (std::size_t k = 0; k < from.size(); ++k) m.axis[from[k]] = result.axis[to[k]];
      return m;
    }
    default:
      return result;
  }
}

std::vector<std::size_t> tile_operands(const Op& op) {
  const bool has_view = !op.operands.empty() && op.operands[0]->type.is_view();
  const std::size_t first = has_view ? 1 + static_cast<std::size_t>(op.operands[0]->type.rank) : 0;
  std::vector<std::size_t> list;
  for (std::size_t i = first; i < op.operands.size(); ++i) list.push_back(i);
  return list;
}

const Value* mask_of(const Op& op) {
  if (op.id == OpId::reduce || op.id == OpId::arg_reduce) return op.operands.size() == 2 ? op.operands[1] : nullptr;
  return op.attrs.get_int(AttrKey::masked) != 0 ? op.operands.back() : nullptr;
}

const Value* stored_value(const Op& op) {
  return op.id == OpId::store ? op.operands[1 + static_cast<std::size_t>(op.operands[0]->type.rank)] : op.operands[1];
}

std::vector<Bound> bounds_of(const Op& op, const AxisMap& m) {
  std::vector<Bound> list;
  if (op.id == OpId::load_ptr || op.id == OpId::store_ptr || op.attrs.get_int(AttrKey::inbounds) != 0) return list;
  for (int k = 0; k < op.operands[0]->type.rank; ++k) {
    const auto i = static_cast<std::size_t>(k);
    list.push_back({op.operands[0], k, op.operands[1 + i], m.axis[i]});
  }
  return list;
}

bool contains(const std::vector<Bound>& all, const Bound& b) {
  return std::find(all.begin(), all.end(), b) != all.end();
}

void add_bounds(std::vector<Bound>& to, const std::vector<Bound>& from) {
  for (const Bound& b : from) {
    if (!contains(to, b)) to.push_back(b);
  }
}

void split_mask(const Value* mask, const AxisMap& m, MaskParts& out) {
  if (mask == nullptr) return;
  const Op* def = mask->def;
  if (def != nullptr && !is_unit(mask)) {
    switch (def->id) {
      case OpId::constant:
        if (def->attrs.get_int(AttrKey::value) != 0) return;
        break;
      case OpId::inside:
        return add_bounds(out.bounds, bounds_of(*def, m));
      case OpId::bit_and:
        split_mask(def->operands[0], m, out);
        return split_mask(def->operands[1], m, out);
      case OpId::broadcast:
      case OpId::expand_dims:
      case OpId::trans:
        return split_mask(def->operands[0], operand_map(*def, 0, m), out);
      case OpId::reshape:
        if (is_axis_reshape(*def)) return split_mask(def->operands[0], operand_map(*def, 0, m), out);
        break;
      default:
        break;
    }
  }
  out.rest.emplace_back(mask, m);
}

namespace {

const ir::ViewFacts* facts_of(const ir::Function& f, const Value* view) {
  for (const ir::Param& p : f.params) {
    if (p.value == view) return &p.facts;
  }
  return nullptr;
}

}  // namespace

bool may_conflict(const ir::Function& f, const Op& a, const Op& b) {
  const Value *x = a.operands[0], *y = b.operands[0];
  if (x->type.is_pointer() || y->type.is_pointer() || x == y) return true;
  const ir::ViewFacts *p = facts_of(f, x), *q = facts_of(f, y);
  return p == nullptr || q == nullptr || (p->may_alias && q->may_alias);
}

}  // namespace tileweave::codegen::cpu
