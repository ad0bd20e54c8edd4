// The builder's functions for ops that move elements about, and for scan and fold.
// Beside builder.cpp, over the same way to make an op.
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/builder.h"

namespace tileweave::ir {
namespace {

std::vector<Value*> with_mask(Value* x, Attrs& attrs, Value* mask) {
  if (mask == nullptr) return {x};
  attrs.set(AttrKey::masked, std::int64_t{1});
  return {x, mask};
}

Attrs sort_attrs(int axis, bool descending) {
  Attrs attrs{{AttrKey::axis, std::int64_t{axis}}};
  if (descending) attrs.set(AttrKey::descending, std::int64_t{1});
  return attrs;
}

}  // namespace

Value* Builder::slice(Value* x, std::span<const std::int64_t> starts, std::span<const std::int64_t> extents, Place p) {
  Attrs attrs{{AttrKey::extents, std::vector<std::int64_t>(extents.begin(), extents.end())},
              {AttrKey::starts, std::vector<std::int64_t>(starts.begin(), starts.end())}};
  Value* made = pure(OpId::slice, {x}, std::move(attrs), {}, p);
  if (made->type == x->type) return x;
  if (const auto c = constant_of(x)) return constant_bits(made->type, *c, p);
  return made;
}

Value* Builder::cat(Value* a, Value* b, int axis, Place p) {
  return pure(OpId::cat, {a, b}, {{AttrKey::axis, std::int64_t{axis}}}, {}, p);
}

Value* Builder::flip(Value* x, int axis, Place p) {
  Value* made = pure(OpId::flip, {x}, {{AttrKey::axis, std::int64_t{axis}}}, {}, p);
  return constant_of(x) || x->type.extents[static_cast<std::size_t>(axis)] == 1 ? x : made;
}

Value* Builder::gather(Value* x, Value* index, int axis, Place p) {
  return pure(OpId::gather, {x, index}, {{AttrKey::axis, std::int64_t{axis}}}, {}, p);
}

Value* Builder::sort(Value* x, int axis, bool descending, Value* mask, Place p) {
  Attrs attrs = sort_attrs(axis, descending);
  std::vector<Value*> operands = with_mask(x, attrs, mask);
  return pure(OpId::sort, std::move(operands), std::move(attrs), {}, p);
}

Value* Builder::argsort(Value* x, int axis, bool descending, Value* mask, Place p) {
  Attrs attrs = sort_attrs(axis, descending);
  std::vector<Value*> operands = with_mask(x, attrs, mask);
  return pure(OpId::argsort, std::move(operands), std::move(attrs), {}, p);
}

Value* Builder::histogram(Value* x, std::int64_t bins, Value* mask, Place p) {
  Attrs attrs{{AttrKey::extents, std::vector<std::int64_t>{bins}}};
  std::vector<Value*> operands = with_mask(x, attrs, mask);
  return pure(OpId::histogram, std::move(operands), std::move(attrs), {}, p);
}

Op* Builder::begin_combine(OpId id, std::span<Value* const> values, Attrs attrs, Value* mask, Place p) {
  std::vector<Value*> operands(values.begin(), values.end());
  if (mask != nullptr) {
    operands.push_back(mask);
    attrs.set(AttrKey::masked, std::int64_t{1});
  }
  Op* op = append(id, std::move(operands), std::move(attrs), {}, p);
  std::vector<Type> args;
  for (int side = 0; side < 2; ++side) {
    for (const Value* v : values) args.push_back(Type::scalar(v->type.elem));
  }
  enter(add_region(op, std::move(args)));
  return op;
}

Op* Builder::begin_scan(std::span<Value* const> values, int axis, bool reverse, Value* mask, Place p) {
  Attrs attrs{{AttrKey::axis, std::int64_t{axis}}};
  if (reverse) attrs.set(AttrKey::reverse, std::int64_t{1});
  return begin_combine(OpId::scan, values, std::move(attrs), mask, p);
}

Op* Builder::begin_fold(std::span<Value* const> values, int axis, Value* mask, Place p) {
  return begin_combine(OpId::fold, values, {{AttrKey::axis, std::int64_t{axis}}}, mask, p);
}

void Builder::end_combine(std::span<Value* const> given, Place p) {
  const Op* op = region_->parent;
  if (op == nullptr || (op->id != OpId::scan && op->id != OpId::fold)) {
    throw_internal_error(std::source_location::current(), "the open region is not one of scan or fold");
  }
  append(OpId::yield, {given.begin(), given.end()}, {}, {}, p.known() ? p : op->place);
  leave();
}

}  // namespace tileweave::ir
