// Finds loads, stores and `inside` whose block provably lies within the view.
// After canonicalize, which put offsets in their simplest form; canonicalize then drops the masks that became true.
#include <algorithm>

#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

// v <= symbol + slack, as mathematical integers; slack is never positive, so nothing wrapped on the way.
struct UpperBound {
  const Value* symbol;
  std::int64_t slack;
};
using UpperBounds = std::vector<UpperBound>;

constexpr int max_depth = 5;
// Constants beyond this are left alone, so that sums of a few of them cannot overflow.
constexpr std::int64_t large = std::int64_t{1} << 48;

const Op* made_by(const Value* v, OpId id) { return v->def != nullptr && v->def->id == id ? v->def : nullptr; }

std::optional<std::int64_t> small_constant(const Value* v) {
  const auto c = constant_of(v);
  if (!c) return std::nullopt;
  const auto n = static_cast<std::int64_t>(*c);
  return n > -large && n < large ? std::optional(n) : std::nullopt;
}

// extent / c, for an extent (never negative) and a positive constant.
bool is_quotient(const Value* v, std::int64_t c) {
  const Op* d = v->def;
  if (d == nullptr || (d->id != OpId::div && d->id != OpId::floor_div) || c <= 0) return false;
  return made_by(d->operands[0], OpId::extent) != nullptr && small_constant(d->operands[1]) == c;
}

bool is_never_negative(const Value* v) {
  const Op* d = v->def;
  if (d == nullptr) return false;
  if (d->id == OpId::div || d->id == OpId::floor_div) return is_quotient(v, small_constant(d->operands[1]).value_or(0));
  return d->id == OpId::extent || d->id == OpId::program_id || d->id == OpId::num_programs;
}

class Bounds {
 public:
  explicit Bounds(const Region* at) : at_(at) {}

  // The loop whose index `v` is, if it counts up by a constant.
  static const Op* counting_loop(const Value* v) {
    if (v->region == nullptr || v->index != 0 || v->region->parent == nullptr) return nullptr;
    const Op* loop = v->region->parent;
    if (loop->id != OpId::for_) return nullptr;
    const auto step = small_constant(loop->operands[2]);
    return step && *step > 0 ? loop : nullptr;
  }

  UpperBounds upper(const Value* v, int depth = 0) const {
    UpperBounds out{{v, 0}};
    if (depth > max_depth) return out;
    if (const Op* loop = counting_loop(v)) loop_upper(*loop, out, depth);
    if (v->def != nullptr) op_upper(*v->def, out, depth);
    guard_upper(v, out, depth);
    return out;
  }

  // Nothing where it is not known.
  std::optional<std::int64_t> lower(const Value* v, int depth = 0) const {
    if (depth > max_depth) return std::nullopt;
    if (const auto c = small_constant(v)) return c;
    if (is_never_negative(v)) return 0;
    if (const Op* loop = counting_loop(v)) return lower(loop->operands[0], depth + 1);
    const Op* d = v->def;
    if (d == nullptr || d->operands.size() != 2) return std::nullopt;
    const auto c = small_constant(d->operands[1]);
    const auto x = lower(d->operands[0], depth + 1);
    if (!c || !x) return std::nullopt;
    if (d->id == OpId::add && adds_without_wrapping(d->operands[0], *c, *x, depth)) return *x + *c;
    // x c with x at most extent / c stays under the extent.
    if (d->id == OpId::mul && *x >= 0 && op_bounds_product(*d, depth)) return 0;
    return std::nullopt;
  }

 private:
  bool adds_without_wrapping(const Value* x, std::int64_t c, std::int64_t lowest, int depth) const {
    if (c <= 0) return lowest > -large;
    return std::ranges::any_of(upper(x, depth + 1), [&](const UpperBound& u) { return u.slack <= -c; });
  }

  bool op_bounds_product(const Op& op, int depth) const {
    UpperBounds out;
    op_upper(op, out, depth);
    return !out.empty();
  }

  static void add(UpperBounds& to, const UpperBounds& from, std::int64_t more) {
    for (const UpperBound& u : from) {
      const std::int64_t slack = u.slack + more;
      if (slack <= 0 && slack > -large) to.push_back({u.symbol, slack});
    }
  }

  void loop_upper(const Op& loop, UpperBounds& out, int depth) const {
    const Value* hi = loop.operands[1];
    add(out, upper(hi, depth + 1), -1);
    // From a multiple of c by c below a multiple of c: the last index is at least c under it.
    const std::int64_t step = *small_constant(loop.operands[2]);
    const auto lo = small_constant(loop.operands[0]);
    const Op* product = made_by(hi, OpId::mul);
    const bool multiples = lo && *lo % step == 0 && product != nullptr &&
                           small_constant(product->operands[1]) == step && is_quotient(product->operands[0], step);
    if (multiples) add(out, upper(hi, depth + 1), -step);
  }

  void op_upper(const Op& op, UpperBounds& out, int depth) const {
    if (op.id == OpId::minimum) {
      for (const Value* x : op.operands) add(out, upper(x, depth + 1), 0);
      return;
    }
    if (op.id != OpId::add && op.id != OpId::mul) return;
    const auto c = small_constant(op.operands[1]);
    if (!c) return;
    const Value* x = op.operands[0];
    if (op.id == OpId::add) {
      // Going down, x must not wrap below; going up, a slack that stays under zero says that x + c does not.
      const auto lowest = *c < 0 ? lower(x, depth + 1) : std::optional<std::int64_t>(0);
      if (lowest && *lowest > -large) add(out, upper(x, depth + 1), *c);
    } else if (*c > 0) {
      for (const UpperBound& u : upper(x, depth + 1)) {
        if (u.slack > -large / *c && is_quotient(u.symbol, *c) && lower(x, depth + 1).value_or(-1) >= 0) {
          out.push_back({u.symbol->def->operands[0], u.slack * *c});
        }
      }
    }
  }

  // What the conditions of the ifs around say.
  void guard_upper(const Value* v, UpperBounds& out, int depth) const {
    for (const Region* r = at_; r != nullptr && r->parent != nullptr; r = r->parent->parent) {
      const Op& owner = *r->parent;
      if (owner.id == OpId::if_ && owner.regions[0].get() == r) condition_upper(owner.operands[0], v, out, depth);
    }
  }

  void condition_upper(const Value* condition, const Value* v, UpperBounds& out, int depth) const {
    const Op* d = condition->def;
    if (d == nullptr || d->operands.size() != 2 || d->operands[0]->type.elem == Dtype::u64) return;
    const Value *a = d->operands[0], *b = d->operands[1];
    switch (d->id) {
      case OpId::bit_and:
        condition_upper(a, v, out, depth);
        condition_upper(b, v, out, depth);
        return;
      case OpId::lt:
      case OpId::le:
        if (a == v) add(out, upper(b, depth + 1), d->id == OpId::lt ? -1 : 0);
        return;
      case OpId::gt:
      case OpId::ge:
        if (b == v) add(out, upper(a, depth + 1), d->id == OpId::gt ? -1 : 0);
        return;
      default:
        return;
    }
  }

  const Region* at_;
};

bool is_extent_of(const Value* v, const Value* view, std::size_t axis) {
  const Op* d = made_by(v, OpId::extent);
  return d != nullptr && d->operands[0] == view && d->attrs.get_int(AttrKey::axis) == static_cast<std::int64_t>(axis);
}

const Type& block_of(const Op& op) {
  return op.id == OpId::store ? op.operands[1 + static_cast<std::size_t>(op.operands[0]->type.rank)]->type
                              : op.results[0]->type;
}

bool lies_inside(const Op& op) {
  const Value* view = op.operands[0];
  const Type& block = block_of(op);
  const Bounds bounds(op.parent);
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view->type.rank); ++axis) {
    const Value* offset = op.operands[1 + axis];
    const auto lowest = bounds.lower(offset);
    if (!lowest || *lowest < 0) return false;
    const bool below = std::ranges::any_of(bounds.upper(offset), [&](const UpperBound& u) {
      return is_extent_of(u.symbol, view, axis) && u.slack <= -block.extents[axis];
    });
    if (!below) return false;
  }
  return true;
}

bool prove(Rewriter& w, const Op& op) {
  if (op.id != OpId::inside && op.id != OpId::load && op.id != OpId::store) return false;
  if (op.attrs.get_int(AttrKey::inbounds) != 0 || !lies_inside(op)) return false;
  if (op.id == OpId::inside) {
    w.replace(op.results[0], w.builder().constant_bits(op.results[0]->type, 1, op.place));
    return true;
  }
  Attrs attrs = op.attrs;
  attrs.set(AttrKey::inbounds, std::int64_t{1});
  const Op* made = w.builder().insert(op.id, w.map(op.operands), std::move(attrs), {}, op.place);
  if (op.id == OpId::load) w.replace(op.results[0], made->results[0]);
  return true;
}

}  // namespace

void prove_inside(Function& f) {
  if (!f.options.checked) f = Rewriter(f).run(prove);
}

}  // namespace tileweave::passes
