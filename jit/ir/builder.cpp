// The builder: one function for each kind of op, over one way to make an op.
// Stands between the recorder, parser and passes on one side and the function they fill on the other.
#include "tileweave/jit/ir/builder.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/infer.h"
#include "tileweave/jit/ir/limits.h"

namespace tileweave::ir {
namespace {

// One row a way to combine, in the order of Combine.
struct CombineRow {
  std::string_view name;
  OpId op;
};
constexpr std::array<CombineRow, 9> combines = {{{"sum", OpId::add},
                                                 {"prod", OpId::mul},
                                                 {"min", OpId::minimum},
                                                 {"max", OpId::maximum},
                                                 {"fmin", OpId::fmin},
                                                 {"fmax", OpId::fmax},
                                                 {"and", OpId::bit_and},
                                                 {"or", OpId::bit_or},
                                                 {"xor", OpId::bit_xor}}};

std::vector<std::int64_t> list(std::span<const std::int64_t> e) { return {e.begin(), e.end()}; }

std::vector<Value*> view_operands(Value* view, std::span<Value* const> offsets) {
  std::vector<Value*> v{view};
  v.insert(v.end(), offsets.begin(), offsets.end());
  return v;
}

// The mask, where there is one, is the last operand and `masked` says so.
void add_mask(std::vector<Value*>& operands, Attrs& attrs, Value* mask) {
  if (mask == nullptr) return;
  operands.push_back(mask);
  attrs.set(AttrKey::masked, std::int64_t{1});
}

void add_hint(Attrs& attrs, std::string_view hint) {
  if (!hint.empty()) attrs.set(AttrKey::hint, std::string(hint));
}

// The shape all operands have once scalars are broadcast: that of the first which is no scalar.
const Type* shape_of(std::span<Value* const> operands) {
  for (const Value* v : operands) {
    if (v->type.is_tile() && v->type.rank > 0) return &v->type;
  }
  return nullptr;
}

}  // namespace

std::string_view combine_name(Combine c) { return combines[static_cast<std::size_t>(c)].name; }

OpId combine_op(Combine c) { return combines[static_cast<std::size_t>(c)].op; }

std::optional<Combine> combine_from_name(std::string_view s) {
  const auto at = std::find_if(combines.begin(), combines.end(), [s](const CombineRow& row) { return row.name == s; });
  if (at == combines.end()) return std::nullopt;
  return static_cast<Combine>(at - combines.begin());
}

std::optional<std::uint64_t> constant_of(const Value* v) {
  if (v->def == nullptr || v->def->id != OpId::constant) return std::nullopt;
  return static_cast<std::uint64_t>(v->def->attrs.get_int(AttrKey::value));
}

Builder::Builder(Function& f) : function_(f), region_(&f.body()) {}

// --- constants

Value* Builder::constant_bits(Type t, std::uint64_t bits, Place p) {
  return pure(OpId::constant, {}, {{AttrKey::value, static_cast<std::int64_t>(bits)}}, {&t, 1}, p);
}
Value* Builder::constant(Type t, double v, Place p) { return constant_bits(t, host::from_double(v, t.elem), p); }
Value* Builder::constant(Type t, std::int64_t v, Place p) { return constant_bits(t, host::from_int(v, t.elem), p); }

// --- element-wise

Value* Builder::elementwise(OpId id, std::span<Value* const> operands, Place p) {
  std::vector<Value*> same(operands.begin(), operands.end());
  if (const Type* shape = shape_of(operands)) {
    const Extents e = shape->shape();
    for (Value*& v : same) {
      if (v->type.is_tile() && v->type.rank == 0) v = broadcast(v, e, p);
    }
  }
  const Attrs attrs;
  const Type result = infer({id, same, attrs, {}, p}).at(0);
  if (Value* folded = fold(id, same, result, p)) return folded;
  return pure_typed(id, std::move(same), {}, result, p);
}

// A splat constant where every operand is one.
Value* Builder::fold(OpId id, std::span<Value* const> operands, const Type& result, Place p) {
  std::array<std::uint64_t, 3> bits{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto c = constant_of(operands[i]);
    if (!c) return nullptr;
    bits[i] = *c;
  }
  return constant_bits(result, host::eval_elementwise(id, operands.back()->type.elem, bits), p);
}

Value* Builder::convert(Value* x, Dtype to, Place p, bool saturate) {
  const bool matters = saturate && is_int(x->type.elem) && is_int(to);
  const Type result = x->type.with_elem(to);
  if (x->type.is_tile() && x->type.elem == to) return x;
  if (const auto c = constant_of(x)) return constant_bits(result, host::convert_bits(*c, x->type.elem, to, matters), p);
  Attrs attrs;
  if (matters) attrs.set(AttrKey::saturate, std::int64_t{1});
  return pure(OpId::convert, {x}, std::move(attrs), {&result, 1}, p);
}

Value* Builder::bitcast(Value* x, Dtype to, Place p) {
  const Type result = x->type.with_elem(to);
  if (x->type.is_tile() && x->type.elem == to) return x;
  const Attrs attrs;
  Value* const operands[] = {x};
  infer({OpId::bitcast, operands, attrs, {&result, 1}, p});
  if (const auto c = constant_of(x)) return constant_bits(result, *c, p);
  return pure_typed(OpId::bitcast, {x}, {}, result, p);
}

// --- shape

Value* Builder::iota(std::int64_t n, Dtype t, std::int64_t start, Place p) {
  const Type result = Type::tile(t, {n});
  return pure(OpId::iota, {}, {{AttrKey::start, start}}, {&result, 1}, p);
}

Value* Builder::broadcast(Value* x, std::span<const std::int64_t> extents, Place p) {
  Attrs attrs{{AttrKey::extents, list(extents)}};
  Value* const operands[] = {x};
  const Type result = infer({OpId::broadcast, operands, attrs, {}, p}).at(0);
  if (result == x->type) return x;
  if (const auto c = constant_of(x)) return constant_bits(result, *c, p);
  return pure_typed(OpId::broadcast, {x}, std::move(attrs), result, p);
}

Extents Builder::broadcast_shape(const Type& a, const Type& b, std::string_view what, Place p) {
  Extents e(static_cast<std::size_t>(std::max(a.rank, b.rank)), 1);
  const auto take = [&](const Type& t) {
    for (int i = 0; i < t.rank; ++i) {
      std::int64_t& n = e[e.size() - static_cast<std::size_t>(t.rank - i)];
      const std::int64_t m = t.extents[static_cast<std::size_t>(i)];
      if (n != 1 && m != 1 && n != m) {
        throw_record_error(p, std::string(what) + ": extents differ: lhs " + to_string(a) + ", rhs " + to_string(b),
                           "an axis must have the same extent in both, or extent 1 in one");
      }
      if (n == 1) n = m;
    }
  };
  take(a);
  take(b);
  return e;
}

Value* Builder::expand_dims(Value* x, int axis, Place p) {
  Attrs attrs{{AttrKey::axis, std::int64_t{axis}}};
  Value* const operands[] = {x};
  const Type result = infer({OpId::expand_dims, operands, attrs, {}, p}).at(0);
  if (const auto c = constant_of(x)) return constant_bits(result, *c, p);
  return pure_typed(OpId::expand_dims, {x}, std::move(attrs), result, p);
}

Value* Builder::reshape(Value* x, std::span<const std::int64_t> extents, Place p) {
  Attrs attrs{{AttrKey::extents, list(extents)}};
  Value* const operands[] = {x};
  const Type result = infer({OpId::reshape, operands, attrs, {}, p}).at(0);
  if (result == x->type) return x;
  if (const auto c = constant_of(x)) return constant_bits(result, *c, p);
  return pure_typed(OpId::reshape, {x}, std::move(attrs), result, p);
}

Value* Builder::trans(Value* x, std::span<const int> perm, Place p) {
  Attrs attrs{{AttrKey::perm, std::vector<std::int64_t>(perm.begin(), perm.end())}};
  Value* const operands[] = {x};
  const Type result = infer({OpId::trans, operands, attrs, {}, p}).at(0);
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  if (const auto c = constant_of(x)) return constant_bits(result, *c, p);
  return pure_typed(OpId::trans, {x}, std::move(attrs), result, p);
}

// --- grid and views

Value* Builder::program_id(int axis, Place p) {
  return pure(OpId::program_id, {}, {{AttrKey::axis, std::int64_t{axis}}}, {}, p);
}
Value* Builder::num_programs(int axis, Place p) {
  return pure(OpId::num_programs, {}, {{AttrKey::axis, std::int64_t{axis}}}, {}, p);
}
Value* Builder::extent(Value* view, int axis, Place p) {
  return pure(OpId::extent, {view}, {{AttrKey::axis, std::int64_t{axis}}}, {}, p);
}
Value* Builder::stride(Value* view, int axis, Place p) {
  return pure(OpId::stride, {view}, {{AttrKey::axis, std::int64_t{axis}}}, {}, p);
}

// --- memory

Value* Builder::inside(Value* view, std::span<Value* const> offsets, std::span<const std::int64_t> extents, Place p) {
  return pure(OpId::inside, view_operands(view, offsets), {{AttrKey::extents, list(extents)}}, {}, p);
}

Value* Builder::load(Value* view, std::span<Value* const> offsets, std::span<const std::int64_t> extents, Value* mask,
                     std::uint64_t pad_bits, Place p, std::string_view hint) {
  std::vector<Value*> operands = view_operands(view, offsets);
  Attrs attrs{{AttrKey::extents, list(extents)}, {AttrKey::pad, static_cast<std::int64_t>(pad_bits)}};
  add_mask(operands, attrs, mask);
  add_hint(attrs, hint);
  return append(OpId::load, std::move(operands), std::move(attrs), {}, p)->result();
}

void Builder::store(Value* view, std::span<Value* const> offsets, Value* value, Value* mask, Place p,
                    std::string_view hint) {
  std::vector<Value*> operands = view_operands(view, offsets);
  operands.push_back(value);
  Attrs attrs;
  add_mask(operands, attrs, mask);
  add_hint(attrs, hint);
  append(OpId::store, std::move(operands), std::move(attrs), {}, p);
}

Value* Builder::view_base(Value* view, Place p) { return pure(OpId::view_base, {view}, {}, {}, p); }
Value* Builder::ptr_add(Value* ptr, Value* offset, Place p) { return pure(OpId::ptr_add, {ptr, offset}, {}, {}, p); }

Value* Builder::load_ptr(Value* ptr, Value* mask, std::uint64_t pad_bits, Place p, std::string_view hint) {
  std::vector<Value*> operands{ptr};
  Attrs attrs{{AttrKey::pad, static_cast<std::int64_t>(pad_bits)}};
  add_mask(operands, attrs, mask);
  add_hint(attrs, hint);
  return append(OpId::load_ptr, std::move(operands), std::move(attrs), {}, p)->result();
}

void Builder::store_ptr(Value* ptr, Value* value, Value* mask, Place p, std::string_view hint) {
  std::vector<Value*> operands{ptr, value};
  Attrs attrs;
  add_mask(operands, attrs, mask);
  add_hint(attrs, hint);
  append(OpId::store_ptr, std::move(operands), std::move(attrs), {}, p);
}

// --- reductions

Value* Builder::reduce(Value* x, int axis, Combine c, Value* mask, Place p) {
  std::vector<Value*> operands{x};
  Attrs attrs{{AttrKey::axis, std::int64_t{axis}}, {AttrKey::combine, std::string(combine_name(c))}};
  add_mask(operands, attrs, mask);
  return pure(OpId::reduce, std::move(operands), std::move(attrs), {}, p);
}

Value* Builder::arg_reduce(Value* x, int axis, Combine min_or_max, Value* mask, Place p) {
  std::vector<Value*> operands{x};
  Attrs attrs{{AttrKey::axis, std::int64_t{axis}}, {AttrKey::combine, std::string(combine_name(min_or_max))}};
  add_mask(operands, attrs, mask);
  return pure(OpId::arg_reduce, std::move(operands), std::move(attrs), {}, p);
}

Value* Builder::dot(Value* a, Value* b, Value* acc, std::string_view precision, Place p) {
  Attrs attrs;
  if (!precision.empty()) attrs.set(AttrKey::precision, std::string(precision));
  return pure(OpId::dot, {a, b, acc}, std::move(attrs), {}, p);
}

// --- mutable tiles

Value* Builder::var(Value* init, Place p) { return append(OpId::var, {init}, {}, {}, p)->result(); }
Value* Builder::var_get(Value* var, Place p) { return append(OpId::var_get, {var}, {}, {}, p)->result(); }
void Builder::var_set(Value* var, Value* value, Place p) { append(OpId::var_set, {var, value}, {}, {}, p); }

// --- control flow while recording

Value* Builder::begin_for(Value* lo, Value* hi, Value* step, Place p) {
  Op* op = append(OpId::for_, {lo, hi, step}, {}, {}, p);
  Region* body = add_region(op, {Type::scalar(Dtype::i64)});
  enter(body);
  return body->args[0];
}

void Builder::end_for() {
  const Op* op = open_control(OpId::for_);
  append(OpId::yield, {}, {}, {}, op->place);
  leave();
}

void Builder::begin_if(Value* condition, Place p) {
  Op* op = append(OpId::if_, {condition}, {}, {}, p);
  enter(add_region(op, {}));
}

void Builder::begin_else() {
  Op* op = open_control(OpId::if_);
  if (op->regions.size() != 1) throw_internal_error(std::source_location::current(), "begin_else twice in one if");
  append(OpId::yield, {}, {}, {}, op->place);
  leave();
  enter(add_region(op, {}));
}

void Builder::end_if() {
  if (open_control(OpId::if_)->regions.size() == 1) begin_else();
  append(OpId::yield, {}, {}, {}, open_control(OpId::if_)->place);
  leave();
}

void Builder::begin_while(Place p) {
  Op* op = append(OpId::while_, {}, {}, {}, p);
  enter(add_region(op, {}));
}

void Builder::while_condition(Value* flag, Place p) {
  Op* op = open_control(OpId::while_);
  append(OpId::condition, {flag}, {}, {}, p.known() ? p : op->place);
  leave();
  enter(add_region(op, {}));
}

void Builder::end_while() {
  const Op* op = open_control(OpId::while_);
  if (op->regions.size() != 2) throw_internal_error(std::source_location::current(), "a while without its condition");
  append(OpId::yield, {}, {}, {}, op->place);
  leave();
}

Op* Builder::open_control(OpId expected) const {
  Op* op = region_->parent;
  if (op == nullptr || op->id != expected) {
    throw_internal_error(std::source_location::current(),
                         "the open region is not one of " + std::string(op_info(expected).name));
  }
  return op;
}

Value* Builder::remake(const Op& op, std::span<Value* const> operands, Place p) {
  if (is_elementwise(op.id)) {
    Value* same = elementwise(op.id, operands, p);
    if (same->def != nullptr && same->def->id == op.id) same->def->attrs = op.attrs;  // else it was folded
    return same;
  }
  switch (op.id) {
    case OpId::convert:
      return convert(operands[0], op.results[0]->type.elem, p, op.attrs.get_int(AttrKey::saturate) != 0);
    case OpId::bitcast:
      return bitcast(operands[0], op.results[0]->type.elem, p);
    case OpId::broadcast:
      return broadcast(operands[0], op.attrs.get_list(AttrKey::extents), p);
    case OpId::expand_dims:
      return expand_dims(operands[0], static_cast<int>(op.attrs.get_int(AttrKey::axis)), p);
    case OpId::reshape:
      return reshape(operands[0], op.attrs.get_list(AttrKey::extents), p);
    case OpId::trans: {
      const auto& perm = op.attrs.get_list(AttrKey::perm);
      return trans(operands[0], std::vector<int>(perm.begin(), perm.end()), p);
    }
    case OpId::slice:
      return slice(operands[0], op.attrs.get_list(AttrKey::starts), op.attrs.get_list(AttrKey::extents), p);
    case OpId::flip:
      return flip(operands[0], static_cast<int>(op.attrs.get_int(AttrKey::axis)), p);
    default:
      return pure(op.id, {operands.begin(), operands.end()}, op.attrs, {&op.results[0]->type, 1}, p);
  }
}

// --- the general form

Op* Builder::insert(OpId id, std::vector<Value*> operands, Attrs attrs, std::vector<Type> results, Place p) {
  return append(id, std::move(operands), std::move(attrs), results, p);
}

Op* Builder::append(OpId id, std::vector<Value*> operands, Attrs attrs, std::span<const Type> results, Place p) {
  const std::vector<Type> types = infer({id, operands, attrs, results, p});
  return append_typed(id, std::move(operands), std::move(attrs), types, p);
}

Op* Builder::append_typed(OpId id, std::vector<Value*> operands, Attrs attrs, std::span<const Type> results, Place p) {
  auto op = std::make_unique<Op>();
  op->id = id;
  op->operands = std::move(operands);
  op->attrs = std::move(attrs);
  op->place = p;
  op->parent = region_;
  for (const Type& t : results) {
    Value* v = function_.new_value(t);
    v->def = op.get();
    v->index = static_cast<int>(op->results.size());
    op->results.push_back(v);
  }
  region_->ops.push_back(std::move(op));
  return region_->ops.back().get();
}

Region* Builder::add_region(Op* op, std::vector<Type> args) {
  op->regions.push_back(std::make_unique<Region>());
  Region* r = op->regions.back().get();
  r->parent = op;
  for (const Type& t : args) {
    Value* v = function_.new_value(t);
    v->region = r;
    v->index = static_cast<int>(r->args.size());
    r->args.push_back(v);
  }
  return r;
}

void Builder::enter(Region* r) {
  // Here and not in verify alone: a lambda that nests without end would use up its thread's stack first.
  if (stack_.size() >= static_cast<std::size_t>(max_region_depth)) {
    throw_record_error(r->parent->place,
                       "control flow is nested more than " + std::to_string(max_region_depth) + " deep");
  }
  stack_.push_back(region_);
  region_ = r;
}

void Builder::leave() {
  if (stack_.empty()) throw_internal_error(std::source_location::current(), "left more regions than entered");
  region_ = stack_.back();
  stack_.pop_back();
}

// --- reuse

namespace {

struct Hasher {
  std::size_t h = 0xcbf29ce484222325u;
  void add(std::size_t x) { h = (h ^ x) * 0x100000001b3u ^ (h >> 29); }
  void add(const AttrValue& v) {
    if (const auto* i = std::get_if<std::int64_t>(&v)) return add(static_cast<std::size_t>(*i));
    if (const auto* s = std::get_if<std::string>(&v)) return add(std::hash<std::string>{}(*s));
    for (const std::int64_t i : std::get<std::vector<std::int64_t>>(v)) add(static_cast<std::size_t>(i));
  }
};

std::size_t hash_of(OpId id, std::span<Value* const> operands, const Attrs& attrs, const Type& t) {
  Hasher h;
  h.add(static_cast<std::size_t>(id));
  for (const Value* v : operands) h.add(reinterpret_cast<std::size_t>(v));
  for (const auto& [key, value] : attrs.items()) {
    h.add(static_cast<std::size_t>(key));
    h.add(value);
  }
  h.add(static_cast<std::size_t>(t.elem));
  for (int i = 0; i < t.rank; ++i) h.add(static_cast<std::size_t>(t.extents[static_cast<std::size_t>(i)]));
  return h.h;
}

}  // namespace

bool Builder::is_visible(const Region* r) const {
  return r == region_ || std::find(stack_.begin(), stack_.end(), r) != stack_.end();
}

Value* Builder::find_equal(std::size_t hash, OpId id, std::span<Value* const> operands, const Attrs& attrs,
                           const Type& result) const {
  const auto [first, last] = reuse_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Op* op = at->second;
    if (op->id == id && std::ranges::equal(op->operands, operands) && op->attrs == attrs &&
        op->results[0]->type == result && is_visible(op->parent)) {
      return op->results[0];
    }
  }
  return nullptr;
}

Value* Builder::pure(OpId id, std::vector<Value*> operands, Attrs attrs, std::span<const Type> asked, Place p) {
  const Type result = infer({id, operands, attrs, asked, p}).at(0);
  return pure_typed(id, std::move(operands), std::move(attrs), result, p);
}

Value* Builder::pure_typed(OpId id, std::vector<Value*> operands, Attrs attrs, const Type& result, Place p) {
  const std::size_t hash = hash_of(id, operands, attrs, result);
  if (Value* known = find_equal(hash, id, operands, attrs, result)) return known;
  Op* op = append_typed(id, std::move(operands), std::move(attrs), {&result, 1}, p);
  reuse_.emplace(hash, op);
  return op->results[0];
}

}  // namespace tileweave::ir
