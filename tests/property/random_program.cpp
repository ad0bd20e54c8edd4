// Grows a random program op by op through the Builder, from a pool of the values in scope.
// First of the property tests' steps; compare.cpp runs what comes out.
#include "tests/property/random_program.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "tests/property/dice.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::property {
namespace {

using namespace ir;

class Grower {
 public:
  Grower(Program& p, const RandomOptions& o) : program_(p), options_(o), dice_(p.seed), b_(p.function) {
    for (int i = 0; i < dtype_count; ++i) {
      const auto t = static_cast<Dtype>(i);
      const bool fp8 = t == Dtype::f8e4m3 || t == Dtype::f8e5m2;
      if ((t == Dtype::f64 && !o.f64) || (fp8 && !o.fp8)) continue;
      dtypes_.push_back(t);
      // f32 and f16 are what kernels are made of.
      if (t == Dtype::f32) dtypes_.insert(dtypes_.end(), 4, t);
      if (t == Dtype::f16) dtypes_.push_back(t);
    }
  }

  void grow() {
    grid_rank_ = static_cast<int>(dice_.below(3));
    for (int k = 0; k < grid_rank_; ++k) program_.grid[static_cast<std::size_t>(k)] = dice_.between(1, 3);
    for (int k = 0; k < 2; ++k) add_scalar_param();
    for (int k = 0; k < 2; ++k) keep(load_new());
    while (made_ < options_.ops) step();
    // What nothing has used yet, the last first, so that little of the program is dead.
    for (std::size_t k = pool_.size(), stores = 0; k-- > 0 && stores < 5;) {
      if (used_.contains(pool_[k])) continue;
      store(pool_[k]);
      ++stores;
    }
    store(recent());
  }

 private:
  // --- the pool
  Value* keep(Value* v) {
    if (v != nullptr) pool_.push_back(v);
    return v;
  }
  Value* any() { return dice_.pick(pool_); }
  // Favours what was made last and not used yet, so that programs grow deep and little in them is dead.
  Value* recent() {
    const std::size_t n = pool_.size(), back = std::min<std::size_t>(n, 6);
    Value* v = dice_.chance(80) ? pool_[n - 1 - dice_.below(back)] : any();
    for (std::size_t k = 0; k < back && used_.contains(v); ++k) v = pool_[n - 1 - k];
    used_.insert(v);
    return v;
  }
  template <class Accept>
  Value* find(Accept accept) {
    const std::size_t n = pool_.size(), start = dice_.below(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (accept(pool_[(start + i) % n])) return pool_[(start + i) % n];
    }
    return nullptr;
  }

  Extents random_shape() {
    static const std::vector<std::int64_t> sizes{1, 2, 3, 4, 5, 7, 8, 16, 17, 32};
    Extents e;
    std::int64_t n = 1;
    for (std::size_t rank = 1 + dice_.below(3); e.size() < rank;) {
      const std::int64_t next = dice_.pick(sizes);
      if (n * next > options_.max_elements) break;
      e.push_back(next);
      n *= next;
    }
    return e.empty() ? Extents{1} : e;
  }

  Value* constant_of_type(const Type& t) { return b_.constant_bits(t, interesting_bits(t.elem, dice_.bits())); }

  // A value of exactly this type: from the pool, made to fit, or a constant.
  Value* operand(const Type& t) {
    if (Value* v = find([&](const Value* x) { return x->type == t; }); v != nullptr && dice_.chance(85)) {
      used_.insert(v);
      return v;
    }
    const Value* like = find([&](const Value* x) { return x->type.rank == t.rank && x->type.extents == t.extents; });
    if (like != nullptr && dice_.chance(40)) return b_.convert(const_cast<Value*>(like), t.elem);
    Value* scalar = find([&](const Value* x) { return x->type == Type::scalar(t.elem); });
    if (scalar != nullptr && dice_.chance(50)) return b_.broadcast(scalar, t.shape());
    return constant_of_type(t);
  }

  // What algebraic identities are about.
  Value* special(Value* first) {
    static constexpr double values[] = {0.0, -0.0, 1.0, -1.0, 2.0, 0.25, 4096.0};
    if (dice_.chance(30)) return first;
    return b_.constant_bits(first->type, host::from_double(values[dice_.below(std::size(values))], first->type.elem));
  }

  // A value whose bits may be looked at: a NaN becomes 1.
  Value* without_nan(Value* x) {
    if (!is_float(x->type.elem)) return x;
    return b_.elementwise(OpId::where, {b_.elementwise(OpId::is_nan, {x}), b_.constant(x->type, 1.0), x});
  }

  // --- parameters
  void add_scalar_param() {
    const Dtype t = dice_.pick(dtypes_);
    keep(program_.function.add_param(Type::scalar(t), ""));
    Argument a;
    a.scalar = interesting_bits(t, dice_.bits());
    program_.arguments.push_back(std::move(a));
  }

  Value* add_view(Dtype t, const Extents& extents, bool is_output) {
    Value* v = program_.function.add_param(Type::view(t, static_cast<int>(extents.size()), !is_output), "");
    Argument a;
    a.extents = extents;
    a.is_output = is_output;
    a.strides = random_strides(extents, is_output);
    program_.arguments.push_back(std::move(a));
    return v;
  }

  // Dense in any order of axes, some axes reversed or with gaps; of an input some axis repeated (stride 0).
  Extents random_strides(const Extents& extents, bool is_output) {
    std::vector<std::size_t> order(extents.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    if (!order.empty() && dice_.chance(30)) std::swap(order[dice_.below(order.size())], order[0]);
    Extents strides(extents.size());
    std::int64_t next = 1;
    for (std::size_t k = order.size(); k-- > 0;) {
      if (dice_.chance(15)) next += dice_.between(1, 3);
      strides[order[k]] = dice_.chance(10) ? -next : next;
      next *= std::max<std::int64_t>(extents[order[k]], 1);
    }
    if (!is_output && !strides.empty() && dice_.chance(10)) strides[dice_.below(strides.size())] = 0;
    return strides;
  }

  // --- memory
  Value* offset(std::int64_t block) {
    if (dice_.chance(5)) return b_.num_programs(0);
    Value* base = dice_.chance(50) ? b_.program_id(static_cast<int>(dice_.below(3))) : b_.index(dice_.between(-3, 3));
    if (!indices_.empty() && dice_.chance(60)) base = dice_.pick(indices_);
    Value* scaled = b_.elementwise(OpId::mul, {base, b_.index(dice_.chance(50) ? block : dice_.between(0, 4))});
    return dice_.chance(30) ? b_.elementwise(OpId::add, {scaled, b_.index(dice_.between(-2, 5))}) : scaled;
  }

  Value* load_from(Value* view, const Extents& block) {
    std::vector<Value*> offsets;
    for (const std::int64_t e : block) offsets.push_back(offset(e));
    Value* mask = nullptr;
    if (dice_.chance(30))
      mask = operand(Type::tile(Dtype::boolean, block));
    else if (dice_.chance(30))
      mask = b_.inside(view, offsets, block);
    const Dtype t = view->type.elem;
    return b_.load(view, offsets, block, mask, dice_.chance(50) ? 0 : interesting_bits(t, dice_.bits()));
  }

  Value* load_new() {
    const Extents block = random_shape();
    Extents extents = block;
    for (std::int64_t& e : extents) e = std::max<std::int64_t>(0, e * dice_.between(1, 3) + dice_.between(-2, 2));
    if (dice_.chance(5)) extents[0] = 0;
    views_.push_back(add_view(dice_.pick(dtypes_), extents, false));
    return load_from(views_.back(), block);
  }

  Value* load() {
    if (views_.size() > 4 || (!views_.empty() && dice_.chance(50))) {
      Value* view = dice_.pick(views_);
      Extents block = random_shape();
      block.resize(static_cast<std::size_t>(view->type.rank), 2);
      std::int64_t n = 1;
      for (const std::int64_t e : block) n *= e;
      if (n <= options_.max_elements) return load_from(view, block);
    }
    return load_new();
  }

  Value* inside() {
    if (views_.empty()) return nullptr;
    Value* view = dice_.pick(views_);
    std::vector<Value*> offsets;
    Extents block(static_cast<std::size_t>(view->type.rank), dice_.between(1, 4));
    for (const std::int64_t e : block) offsets.push_back(offset(e));
    return b_.inside(view, offsets, block);
  }

  // A gather: indices brought into the view by floor_mod, nothing read where the view is empty.
  Value* gather() {
    Value* view = nullptr;
    for (Value* v : views_) {
      if (v->type.rank == 1) view = v;
    }
    const Value* index = find([](const Value* x) { return is_int(x->type.elem) && x->type.rank > 0; });
    if (view == nullptr || index == nullptr) return nullptr;
    const Extents e = index->type.shape();
    Value* i = b_.convert(const_cast<Value*>(index), Dtype::i64);
    Value* extent = b_.extent(view, 0);
    Value* wrapped = b_.elementwise(OpId::floor_mod, {i, extent});
    Value* moved = b_.elementwise(OpId::mul, {wrapped, b_.stride(view, 0)});
    Value* pointers = b_.ptr_add(b_.broadcast(b_.view_base(view), e), moved);
    Value* mask = b_.broadcast(b_.elementwise(OpId::gt, {extent, b_.index(0)}), e);
    if (dice_.chance(50)) mask = b_.elementwise(OpId::bit_and, {mask, operand(Type::tile(Dtype::boolean, e))});
    return b_.load_ptr(pointers, mask, interesting_bits(view->type.elem, dice_.bits()));
  }

  // A new output of this value's type; each program writes a block of its own.
  void store(Value* v) {
    const auto least = static_cast<std::size_t>(grid_rank_);
    Extents block = v->type.shape();
    while (block.size() < least) block.insert(block.begin(), 1);
    if (v->type.rank == 0)
      v = b_.broadcast(v, block);
    else
      v = b_.reshape(v, block);
    Extents extents;
    std::vector<Value*> offsets;
    for (std::size_t k = 0; k < block.size(); ++k) {
      if (k < least) {
        offsets.push_back(b_.elementwise(OpId::mul, {b_.program_id(static_cast<int>(k)), b_.index(block[k])}));
        extents.push_back(std::max<std::int64_t>(1, block[k] * program_.grid[k] - dice_.between(0, 2)));
      } else {
        offsets.push_back(b_.index(dice_.chance(70) ? 0 : dice_.between(-1, 2)));
        extents.push_back(std::max<std::int64_t>(1, block[k] + dice_.between(-1, 1)));
      }
    }
    Value* view = add_view(v->type.elem, extents, true);
    Value* mask = nullptr;
    if (dice_.chance(25)) mask = operand(Type::tile(Dtype::boolean, block));
    if (options_.pointers && block.size() == 1 && dice_.chance(40)) return scatter(view, offsets[0], v, mask);
    b_.store(view, offsets, v, mask);
  }

  // The same store through pointers.
  void scatter(Value* view, Value* offset, Value* v, Value* mask) {
    Value* i = b_.elementwise(OpId::add, {b_.iota(v->type.extents[0], Dtype::i64, 0), offset});
    Value* inside = b_.elementwise(
        OpId::bit_and, {b_.elementwise(OpId::ge, {i, b_.index(0)}), b_.elementwise(OpId::lt, {i, b_.extent(view, 0)})});
    if (mask != nullptr) inside = b_.elementwise(OpId::bit_and, {inside, mask});
    Value* moved = b_.elementwise(OpId::mul, {i, b_.stride(view, 0)});
    b_.store_ptr(b_.ptr_add(b_.broadcast(b_.view_base(view), v->type.shape()), moved), v, inside);
  }

  // --- pure ops
  Value* elementwise() {
    for (int tries = 0; tries < 20; ++tries) {
      const auto id = static_cast<OpId>(dice_.below(elementwise_op_count));
      const OpInfo& info = op_info(id);
      if (info.composed && (!options_.composed || dice_.chance(60))) continue;
      Value* first = recent();
      if (host::lane_function(id, first->type.elem) == nullptr || first->type.is_pointer()) continue;
      if (info.types == OpTypes::Select) {
        const Type t = first->type;
        Value* other = dice_.chance(options_.special) ? special(first) : operand(t);
        return b_.elementwise(id, {operand(t.with_elem(Dtype::boolean)), first, other});
      }
      std::vector<Value*> operands{first};
      while (operands.size() < static_cast<std::size_t>(info.arity)) {
        operands.push_back(dice_.chance(options_.special) ? special(first) : operand(first->type));
      }
      if (operands.size() == 2 && dice_.chance(50)) std::swap(operands[0], operands[1]);
      // The sign of a NaN is not promised either.
      if (id == OpId::signbit) operands[0] = without_nan(operands[0]);
      if (id == OpId::copysign) operands[1] = without_nan(operands[1]);
      return b_.elementwise(id, operands);
    }
    return nullptr;
  }

  Value* convert() {
    Value* x = recent();
    if (dice_.chance(75)) return b_.convert(x, dice_.pick(dtypes_), {}, dice_.chance(30));
    const Dtype to = dice_.pick(dtypes_);
    if (is_bool(to) || is_bool(x->type.elem) || dtype_bytes(to) != dtype_bytes(x->type.elem)) return nullptr;
    return b_.bitcast(without_nan(x), to);
  }

  Value* shape() {
    Value* x = recent();
    const auto rank = static_cast<std::size_t>(x->type.rank);
    switch (dice_.below(5)) {
      case 0: {
        Extents e = rank == 0 ? random_shape() : x->type.shape();
        std::int64_t n = 1;
        for (std::int64_t& k : e) {
          if (rank != 0 && k == 1 && dice_.chance(70)) k = dice_.between(1, 5);
          n *= k;
        }
        return n <= options_.max_elements ? b_.broadcast(x, e) : nullptr;
      }
      case 1:
        return rank < 4 ? b_.expand_dims(x, static_cast<int>(dice_.below(rank + 1))) : nullptr;
      case 2: {
        Extents e{x->type.elements()};
        if (e[0] % 2 == 0 && dice_.chance(60)) e = {2, e[0] / 2};
        return b_.reshape(x, e);
      }
      case 3: {
        std::vector<int> perm(rank);
        for (std::size_t k = 0; k < rank; ++k) perm[k] = static_cast<int>(k);
        for (std::size_t k = rank; k > 1; --k) std::swap(perm[k - 1], perm[dice_.below(k)]);
        return b_.trans(x, perm);
      }
      default:
        return b_.iota(dice_.between(1, 17), dice_.chance(50) ? Dtype::i32 : Dtype::i64, dice_.between(-9, 9));
    }
  }

  Value* reduction() {
    Value* x = find([](const Value* v) { return v->type.rank > 0; });
    if (x == nullptr) return nullptr;
    const Dtype t = x->type.elem;
    const int axis = static_cast<int>(dice_.below(static_cast<std::size_t>(x->type.rank)));
    Value* mask = dice_.chance(40) ? operand(x->type.with_elem(Dtype::boolean)) : nullptr;
    if (!is_bool(t) && dice_.chance(20))
      return b_.arg_reduce(x, axis, dice_.chance(50) ? Combine::min : Combine::max, mask);
    std::vector<Combine> combines;
    if (!is_bool(t)) combines = {Combine::sum, Combine::prod, Combine::min, Combine::max, Combine::fmin, Combine::fmax};
    if (!is_float(t)) combines.insert(combines.end(), {Combine::bit_and, Combine::bit_or, Combine::bit_xor});
    return b_.reduce(x, axis, dice_.pick(combines), mask);
  }

  // Ops that move elements about, order them or combine them along an axis.
  Value* along_axis() {
    Value* x = find([](const Value* v) { return v->type.rank > 0; });
    if (x == nullptr) return nullptr;
    const auto axis = dice_.below(static_cast<std::size_t>(x->type.rank));
    switch (dice_.below(8)) {
      case 0:
        return slice(x);
      case 1: {
        Extents e = x->type.shape();
        e[axis] = dice_.between(1, 5);
        const std::int64_t n = x->type.elements() / x->type.extents[axis] * (x->type.extents[axis] + e[axis]);
        if (n > options_.max_elements) return nullptr;
        return b_.cat(x, operand(Type::tile(x->type.elem, e)), static_cast<int>(axis));
      }
      case 2:
        return b_.flip(x, static_cast<int>(axis));
      case 3:
        return pick_along(axis);
      case 4:
      case 5: {
        Value* mask = dice_.chance(40) ? operand(x->type.with_elem(Dtype::boolean)) : nullptr;
        const bool down = dice_.chance(50);
        return dice_.chance(50) ? b_.sort(x, static_cast<int>(axis), down, mask)
                                : b_.argsort(x, static_cast<int>(axis), down, mask);
      }
      case 6:
        return counted();
      default:
        return combined(x, static_cast<int>(axis));
    }
  }

  Value* slice(Value* x) {
    Extents starts, extents;
    for (const std::int64_t n : x->type.shape()) {
      extents.push_back(dice_.chance(40) ? n : dice_.between(1, n));
      starts.push_back(dice_.between(0, n - extents.back()));
    }
    return b_.slice(x, starts, extents);
  }

  Value* pick_along(std::size_t axis) {
    Value* index = find([&](const Value* v) { return is_int(v->type.elem) && v->type.rank > static_cast<int>(axis); });
    if (index == nullptr) return nullptr;
    Extents e = index->type.shape();
    e[axis] = dice_.between(1, 9);
    if (index->type.elements() / index->type.extents[axis] * e[axis] > options_.max_elements) return nullptr;
    // Small enough to hit the tile most of the time.
    if (dice_.chance(70)) {
      index = b_.elementwise(OpId::rem, {index, b_.constant(index->type, std::int64_t{11})});
    }
    return b_.gather(operand(Type::tile(dice_.pick(dtypes_), e)), index, static_cast<int>(axis));
  }

  Value* counted() {
    Value* x = find([](const Value* v) { return is_int(v->type.elem) && v->type.rank > 0; });
    if (x == nullptr) return nullptr;
    Value* flat = b_.reshape(x, Extents{x->type.elements()});
    Value* mask = dice_.chance(30) ? operand(flat->type.with_elem(Dtype::boolean)) : nullptr;
    return b_.histogram(flat, dice_.between(1, 20), mask);
  }

  // A scan or a fold with an associative function: one op, a pair (best, index), or maps x -> a x + b of integers.
  Value* combined(Value* x, int axis) {
    Value* mask = dice_.chance(40) ? operand(x->type.with_elem(Dtype::boolean)) : nullptr;
    const Dtype t = x->type.elem;
    std::vector<Value*> values{x};
    const bool pair = !is_bool(t) && dice_.chance(30);
    if (pair) values[0] = without_nan(x);  // with a NaN "less" orders nothing
    if (pair) values.push_back(operand(x->type.with_elem(is_int(t) ? t : Dtype::i32)));
    const Op* op =
        dice_.chance(65) ? b_.begin_scan(values, axis, dice_.chance(40), mask) : b_.begin_fold(values, axis, mask);
    const auto a = op->regions[0]->args;
    if (!pair) {
      std::vector<OpId> ids;
      if (!is_bool(t)) ids = {OpId::add, OpId::add, OpId::mul, OpId::minimum, OpId::maximum, OpId::fmin, OpId::fmax};
      if (!is_float(t)) ids.insert(ids.end(), {OpId::bit_and, OpId::bit_or, OpId::bit_xor});
      Value* const given[] = {b_.elementwise(dice_.pick(ids), {a[0], a[1]})};
      b_.end_combine(given);
    } else if (is_int(t)) {
      Value* const given[] = {b_.elementwise(OpId::mul, {a[2], a[0]}),
                              b_.elementwise(OpId::add, {b_.elementwise(OpId::mul, {a[2], a[1]}), a[3]})};
      b_.end_combine(given);
    } else {
      // The first of the least ones.
      Value* later = b_.elementwise(OpId::lt, {a[2], a[0]});
      Value* const given[] = {b_.elementwise(OpId::where, {later, a[2], a[0]}),
                              b_.elementwise(OpId::where, {later, a[3], a[1]})};
      b_.end_combine(given);
    }
    if (pair) keep(op->results[1]);
    return op->results[0];
  }

  Value* dot() {
    static const std::vector<Dtype> types{Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8};
    const Dtype t = dice_.pick(types);
    const Extents dims{dice_.between(1, 8), dice_.between(1, 8), dice_.between(1, 8)};
    Value* a = operand(Type::tile(t, {dims[0], dims[2]}));
    Value* c = operand(Type::tile(t, {dims[2], dims[1]}));
    Value* acc = operand(Type::tile(is_float(t) ? Dtype::f32 : Dtype::i32, {dims[0], dims[1]}));
    return b_.dot(a, c, acc, "");
  }

  // --- control flow
  // What a body does; values made in it go out of scope.
  template <class Body>
  void scope(Body body) {
    const std::size_t values = pool_.size(), vars = vars_.size(), indices = indices_.size();
    ++depth_;
    body();
    --depth_;
    pool_.resize(values);
    vars_.resize(vars);
    indices_.resize(indices);
  }

  void steps(std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k) step();
    for (std::size_t k = 0; k < vars_.size() && k < 2; ++k) set_var();
    if (dice_.chance(15)) store(recent());
  }

  void set_var() {
    Value* var = dice_.pick(vars_);
    Value* v = recent();
    if (v->type.elem != var->type.elem) v = b_.convert(v, var->type.elem);
    if (v->type.rank > 0 && v->type != var->type) v = to_scalar(v);
    if (v->type.rank == 0) v = b_.broadcast(v, var->type.shape());
    if (dice_.chance(50) && !is_bool(var->type.elem)) v = b_.elementwise(OpId::add, {b_.var_get(var), v});
    b_.var_set(var, v);
  }

  // By a reduction that is exact in every order.
  Value* to_scalar(Value* v) {
    while (v->type.rank > 0) v = b_.reduce(v, 0, is_bool(v->type.elem) ? Combine::bit_xor : Combine::max, nullptr);
    return v;
  }

  Value* scalar_bool() {
    Value* c = find([](const Value* x) { return x->type == Type::scalar(Dtype::boolean); });
    if (c != nullptr) return c;
    return b_.elementwise(OpId::lt, {b_.program_id(0), b_.index(dice_.between(0, 2))});
  }

  // Control flow that changes a var, whose value is used after it.
  template <class Flow>
  void around_var(Flow flow) {
    if (vars_.empty() || dice_.chance(40)) vars_.push_back(b_.var(recent()));
    flow();
    keep(b_.var_get(dice_.pick(vars_)));
  }

  void for_loop() {
    const std::int64_t step = dice_.chance(20) ? -dice_.between(1, 3) : dice_.between(1, 3);
    const std::int64_t lo = dice_.between(-3, 3), trips = dice_.between(0, 3);
    Value* first = dice_.chance(30) ? b_.elementwise(OpId::add, {b_.program_id(0), b_.index(lo)}) : b_.index(lo);
    Value* last = b_.elementwise(OpId::add, {first, b_.index(step * trips)});
    if (dice_.chance(30)) last = b_.elementwise(OpId::minimum, {last, b_.index(dice_.between(-2, 6))});
    Value* i = b_.begin_for(first, last, b_.index(step));
    scope([&] {
      keep(i);
      indices_.push_back(i);
      steps(dice_.between(1, 5));
    });
    b_.end_for();
  }

  void branch() {
    b_.begin_if(scalar_bool());
    scope([&] { steps(dice_.between(1, 4)); });
    if (dice_.chance(60)) {
      b_.begin_else();
      scope([&] { steps(dice_.between(1, 4)); });
    }
    b_.end_if();
  }

  // A counter ends it; the condition region may set vars too.
  void while_loop() {
    Value* counter = b_.var(b_.index(0));
    Value* limit = b_.index(dice_.between(0, 3));
    b_.begin_while();
    Value* flag = nullptr;
    scope([&] {
      flag = b_.elementwise(OpId::lt, {b_.var_get(counter), limit});
      if (dice_.chance(30)) flag = b_.elementwise(OpId::bit_and, {flag, scalar_bool()});
      if (!vars_.empty() && dice_.chance(40)) set_var();
    });
    b_.while_condition(flag);
    scope([&] {
      steps(dice_.between(1, 4));
      b_.var_set(counter, b_.elementwise(OpId::add, {b_.var_get(counter), b_.index(1)}));
    });
    b_.end_while();
  }

  bool control() {
    if (!options_.control || depth_ > 2) return false;
    switch (dice_.below(5)) {
      case 0:
        vars_.push_back(b_.var(recent()));
        return true;
      case 1:
        if (!vars_.empty()) set_var();
        return true;
      case 2:
        around_var([&] { for_loop(); });
        return true;
      case 3:
        around_var([&] { branch(); });
        return true;
      default:
        around_var([&] { while_loop(); });
        return true;
    }
  }

  void step() {
    ++made_;
    if (dice_.chance(options_.reductions)) {
      keep(reduction());
      return;
    }
    if (dice_.chance(options_.along_axis)) {
      keep(along_axis());
      return;
    }
    const std::size_t kind = dice_.below(100);
    if (kind < 45)
      keep(elementwise());
    else if (kind < 57)
      keep(convert());
    else if (kind < 67)
      keep(shape());
    else if (kind < 75 && options_.dots)
      keep(dot());
    else if (kind < 80)
      keep(load());
    else if (kind < 82)
      keep(inside());
    else if (kind < 85 && options_.pointers)
      keep(gather());
    else if (kind < 89 && !vars_.empty())
      keep(b_.var_get(dice_.pick(vars_)));
    else if (!control())
      keep(elementwise());
  }

  Program& program_;
  const RandomOptions& options_;
  Dice dice_;
  Builder b_;
  std::vector<Dtype> dtypes_;
  std::vector<Value*> pool_;
  std::vector<Value*> views_;
  std::vector<Value*> vars_;
  std::unordered_set<const Value*> used_;
  std::vector<Value*> indices_;  // of the loops around
  int grid_rank_ = 0;
  int depth_ = 0;
  int made_ = 0;
};

}  // namespace

Program random_program(std::uint64_t seed, const RandomOptions& options) {
  Program p;
  p.seed = seed;
  Grower(p, options).grow();
  return p;
}

}  // namespace tileweave::property
