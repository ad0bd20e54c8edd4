// Records atomics: the block of a view becomes pointers and a mask; lanes that are not valid take no part.
// Behind atomic.h.
#include <string>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

using ir::AttrKey;
using ir::OpId;
using ir::Value;

ExtentSpan extents_of(const Value* v) { return {v->type.extents.data(), static_cast<std::size_t>(v->type.rank)}; }

// The operand in the pointers' shape; its invalid lanes leave the operation.
Value* operand(Recorder& r, const Raw& x, const Value* pointers, Value*& keep, const Place& p) {
  const ExtentSpan extents = extents_of(pointers);
  keep = both_valid(r, keep, broadcast_mask(r, x.mask, extents, p), p);
  return broadcast_value(r, r.use(x, p), extents, p);
}

Raw insert(Recorder& r, OpId id, std::vector<Value*> operands, Value* keep, ir::Attrs attrs,
           const AtomicRequest& request, const Place& p) {
  if (request.mask.value != nullptr) {
    const ExtentSpan extents = extents_of(operands[0]);
    Value* m = broadcast_value(r, r.use(request.mask, p), extents, p);
    keep = both_valid(r, keep, both_valid(r, m, broadcast_mask(r, request.mask.mask, extents, p), p), p);
  }
  attrs.set(AttrKey::order, std::string(request.order));
  attrs.set(AttrKey::scope, std::string(request.scope));
  if (keep != nullptr) {
    operands.push_back(keep);
    attrs.set(AttrKey::masked, std::int64_t{1});
  }
  return r.wrap(r.builder.insert(id, std::move(operands), std::move(attrs), {}, p)->result(), keep);
}

}  // namespace

Raw block_pointers(const Raw& view, std::span<const Raw> offsets, const Raw& like, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  ir::Builder& b = r.builder;
  Value* v = r.use(view, p);
  ir::Extents extents = r.use(like, p)->type.shape();
  extents.insert(extents.begin(), static_cast<std::size_t>(v->type.rank) - extents.size(), 1);
  std::vector<Value*> at;
  for (const Raw& o : offsets) {
    Value* x = r.use(o, p);
    at.push_back(x->type.elem == Dtype::i64 ? x : b.convert(x, Dtype::i64, p));
  }
  Value* elements = nullptr;
  for (int axis = 0; axis < v->type.rank; ++axis) {
    const auto k = static_cast<std::size_t>(axis);
    Value* index = b.elementwise(OpId::add, {b.iota(extents[k], Dtype::i64, 0, p), at[k]}, p);
    Value* part = b.elementwise(OpId::mul, {index, b.stride(v, axis, p)}, p);
    for (int other = 0; other < v->type.rank; ++other) {
      if (other != axis) part = b.expand_dims(part, other, p);
    }
    part = b.broadcast(part, extents, p);
    elements = elements == nullptr ? part : b.elementwise(OpId::add, {elements, part}, p);
  }
  Value* base = b.view_base(v, p);
  if (elements == nullptr) return r.wrap(base);
  return r.wrap(b.ptr_add(b.broadcast(base, extents, p), elements, p), b.inside(v, at, extents, p));
}

Raw atomic_rmw(const Raw& pointers, const Raw& value, std::string_view combine, const AtomicRequest& request,
               const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value *ptr = r.use(pointers, p), *keep = pointers.mask;
  Value* x = operand(r, value, ptr, keep, p);
  return insert(r, OpId::atomic_rmw, {ptr, x}, keep, {{AttrKey::combine, std::string(combine)}}, request, p);
}

Raw atomic_cas(const Raw& pointers, const Raw& expected, const Raw& value, const AtomicRequest& request,
               const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value *ptr = r.use(pointers, p), *keep = pointers.mask;
  Value *x = operand(r, expected, ptr, keep, p), *y = operand(r, value, ptr, keep, p);
  return insert(r, OpId::atomic_cas, {ptr, x, y}, keep, {}, request, p);
}

}  // namespace tileweave::record
