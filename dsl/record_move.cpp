// Records ops that move elements about: validity goes along with the elements; sorted lines have their valid lanes
// first. Behind rearrange.h and sort.h.
#include <string>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

using ir::OpId;
using ir::Value;

// Which lanes of sorted lines are valid: the first ones, as many as `mask` has along the axis.
Value* first_lanes(Recorder& r, Value* mask, int axis, const Place& p) {
  const ir::Extents shape = mask->type.shape();
  ir::Builder& b = r.builder;
  Value* count = b.reduce(b.convert(mask, Dtype::i32, p), axis, ir::Combine::sum, nullptr, p);
  count = broadcast_value(r, b.expand_dims(count, axis, p), shape, p);
  Value* position = b.iota(shape[static_cast<std::size_t>(axis)], Dtype::i32, 0, p);
  for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
    if (k != axis) position = b.expand_dims(position, k, p);
  }
  return b.elementwise(OpId::lt, {broadcast_value(r, position, shape, p), count}, p);
}

Value* all_true(Recorder& r, const Value* like, const Place& p) {
  return r.builder.constant_bits(ir::Type::tile(Dtype::boolean, like->type.shape()), 1, p);
}

}  // namespace

Raw slice(const Raw& x, ExtentSpan starts, ExtentSpan extents, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.builder.slice(r.use(x, p), starts, extents, p);
  return r.wrap(v, x.mask == nullptr ? nullptr : r.builder.slice(x.mask, starts, extents, p));
}

Raw cat(const Raw& a, const Raw& b, int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value *first = r.use(a, p), *second = r.use(b, p);
  const int at = checked_axis(first, axis, "cat", p);
  Value* v = r.builder.cat(first, second, at, p);
  if (a.mask == nullptr && b.mask == nullptr) return r.wrap(v);
  Value* masks[] = {a.mask == nullptr ? all_true(r, first, p) : a.mask,
                    b.mask == nullptr ? all_true(r, second, p) : b.mask};
  return r.wrap(v, r.builder.cat(masks[0], masks[1], at, p));
}

Raw flip(const Raw& x, int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  const int at = checked_axis(v, axis, "flip", p);
  return r.wrap(r.builder.flip(v, at, p), x.mask == nullptr ? nullptr : r.builder.flip(x.mask, at, p));
}

Raw gather(const Raw& x, const Raw& index, int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value *v = r.use(x, p), *i = r.use(index, p);
  const int at = checked_axis(v, axis, "gather", p);
  return r.wrap(r.builder.gather(zero_invalid(r, x, v, p), i, at, p), index.mask);
}

Raw sort(const Raw& x, int axis, bool descending, bool indices, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  const int at = checked_axis(v, axis, "sort", p);
  Value* sorted =
      indices ? r.builder.argsort(v, at, descending, x.mask, p) : r.builder.sort(v, at, descending, x.mask, p);
  return r.wrap(sorted, x.mask == nullptr ? nullptr : first_lanes(r, x.mask, at, p));
}

Raw topk_indices(const Raw& x, index_t k, int axis, const Place& place) {
  const Raw all = sort(x, axis, true, true, place);
  ir::Extents extents = all.value->type.shape();
  const auto at = static_cast<std::size_t>(checked_axis(all.value, axis, "topk", place));
  if (k < 1 || k > extents[at]) {
    throw_record_error(place,
                       "topk: there are no " + std::to_string(k) + " largest of the " + std::to_string(extents[at]) +
                           " along axis " + std::to_string(axis),
                       "k is at least 1 and at most the axis' extent");
  }
  extents[at] = k;
  return slice(all, ir::Extents(extents.size(), 0), extents, place);
}

Raw squeeze(const Raw& x, int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  const Value* v = r.use(x, p);
  const int at = checked_axis(v, axis, "squeeze", p);
  ir::Extents extents = v->type.shape();
  if (extents[static_cast<std::size_t>(at)] != 1) {
    throw_record_error(p,
                       "squeeze: axis " + std::to_string(axis) + " of " + ir::to_string(v->type) + " has extent " +
                           std::to_string(extents[static_cast<std::size_t>(at)]) + ", not 1",
                       "reduce the axis, or merge it with another by tw::reshape");
  }
  extents.erase(extents.begin() + at);
  return reshape(x, extents, place);
}

std::pair<Raw, Raw> split(const Raw& x, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  const Value* v = r.use(x, p);
  ir::Extents extents = v->type.shape();
  if (extents.back() != 2) {
    throw_record_error(p,
                       "split: the last axis of " + ir::to_string(v->type) + " has extent " +
                           std::to_string(extents.back()) + ", not 2",
                       "use tw::reshape to make it a pair, or tw::slice");
  }
  ir::Extents starts(extents.size(), 0);
  extents.back() = 1;
  const Raw first = slice(x, starts, extents, place);
  starts.back() = 1;
  const Raw second = slice(x, starts, extents, place);
  return {squeeze(first, -1, place), squeeze(second, -1, place)};
}

Raw interleave(const Raw& a, const Raw& b, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  ir::Extents extents = r.use(a, p)->type.shape();
  const int last = static_cast<int>(extents.size());
  const Raw joined = cat(expand(a, last, place), expand(b, last, place), last, place);
  extents.back() *= 2;
  return reshape(joined, extents, place);
}

Raw histogram(const Raw& x, index_t bins, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(x, p);
  if (bins < 1) {
    throw_record_error(p, "histogram: " + std::to_string(bins) + " bins", "there is at least one bin");
  }
  Value* mask = x.mask;
  if (v->type.rank != 1) {
    const index_t n = v->type.elements();
    v = r.builder.reshape(v, ExtentSpan(&n, 1), p);
    if (mask != nullptr) mask = r.builder.reshape(mask, ExtentSpan(&n, 1), p);
  }
  return r.wrap(r.builder.histogram(v, bins, mask, p));
}

}  // namespace tileweave::record
