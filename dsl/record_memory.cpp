// Records the grid, views, loads and stores: where validity begins (a block that crosses an edge) and where it ends.
// Behind memory.h and grid.h.
#include <string>
#include <vector>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::record {
namespace {

using ir::OpId;
using ir::Value;

std::vector<Value*> offset_values(Recorder& r, std::span<const Raw> offsets, const Place& p) {
  std::vector<Value*> out;
  for (const Raw& o : offsets) {
    Value* v = r.use(o, p);
    out.push_back(v->type.elem == Dtype::i64 ? v : r.builder.convert(v, Dtype::i64, p));
  }
  return out;
}

// A user's mask in the block's shape; its own invalid lanes count as false.
Value* user_mask(Recorder& r, const Raw& mask, ExtentSpan extents, const Place& p) {
  if (mask.value == nullptr) return nullptr;
  Value* m = broadcast_value(r, r.use(mask, p), extents, p);
  return both_valid(r, m, broadcast_mask(r, mask.mask, extents, p), p);
}

std::uint64_t pad_bits(const Literal& v, Dtype t) {
  if (v.kind == Literal::Kind::floating) return ir::host::from_double(v.real, t);
  if (v.kind == Literal::Kind::unsigned_int && v.integer < 0 && is_float(t)) {
    return ir::host::from_double(static_cast<double>(static_cast<std::uint64_t>(v.integer)), t);
  }
  return ir::host::from_int(v.integer, t);
}

void check_block(const Value* view, ExtentSpan extents, std::string_view what, const Place& p) {
  for (const index_t e : extents) {
    if (e < 1) {
      throw_record_error(p,
                         std::string(what) + ": a block of extents " + shape_text(extents) + " of " +
                             ir::to_string(view->type) + " has no lanes",
                         "every extent of a block is at least 1");
    }
  }
}

void check_axis(const Value* view, int axis, std::string_view what, const Place& p) {
  if (axis < 0 || axis >= view->type.rank) {
    throw_record_error(
        p, std::string(what) + ": there is no axis " + std::to_string(axis) + " in " + ir::to_string(view->type));
  }
}

void check_grid_axis(int axis, std::string_view what, const Place& p) {
  if (axis < 0 || axis > 2) {
    throw_record_error(p, std::string(what) + ": a grid has the axes 0, 1 and 2, not " + std::to_string(axis));
  }
}

ExtentSpan extents_of(const Value* v) { return {v->type.extents.data(), static_cast<std::size_t>(v->type.rank)}; }

}  // namespace

Raw program_id(int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  check_grid_axis(axis, "program_id", p);
  return r.wrap(r.builder.program_id(axis, p));
}

Raw num_programs(int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  check_grid_axis(axis, "num_programs", p);
  return r.wrap(r.builder.num_programs(axis, p));
}

Raw view_extent(const Raw& view, int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(view, p);
  const int at = axis < 0 ? axis + v->type.rank : axis;
  check_axis(v, at, "extent", p);
  return r.wrap(r.builder.extent(v, at, p));
}

Raw view_stride(const Raw& view, int axis, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(view, p);
  const int at = axis < 0 ? axis + v->type.rank : axis;
  check_axis(v, at, "stride", p);
  return r.wrap(r.builder.stride(v, at, p));
}

Raw load(const Raw& view, std::span<const Raw> offsets, ExtentSpan extents, const LoadRequest& request,
         const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(view, p);
  check_block(v, extents, "load", p);
  const std::vector<Value*> at = offset_values(r, offsets, p);
  Value* asked = user_mask(r, request.mask, extents, p);
  const std::uint64_t pad = request.has_pad ? pad_bits(request.pad, v->type.elem) : 0;
  Value* tile = r.builder.load(v, at, extents, asked, pad, p, request.hint);
  if (request.has_pad) return r.wrap(tile);
  return r.wrap(tile, both_valid(r, r.builder.inside(v, at, extents, p), asked, p));
}

void store(const Raw& view, std::span<const Raw> offsets, const Raw& value, const Raw& mask, const Place& place,
           std::string_view hint) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(view, p);
  Value* tile = r.use(value, p);
  ir::Extents extents = tile->type.shape();
  extents.insert(extents.begin(), static_cast<std::size_t>(v->type.rank - tile->type.rank), 1);
  tile = broadcast_value(r, tile, extents, p);
  Value* keep = both_valid(r, broadcast_mask(r, value.mask, extents, p), user_mask(r, mask, extents, p), p);
  r.builder.store(v, offset_values(r, offsets, p), tile, keep, p, hint);
}

Raw pointer(const Raw& view, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  return r.wrap(r.builder.view_base(r.use(view, p), p));
}

Raw advance(const Raw& pointers, const Raw& offsets, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* ptr = r.use(pointers, p);
  Value* off = r.use(offsets, p);
  if (off->type.elem != Dtype::i64) off = r.builder.convert(off, Dtype::i64, p);
  const ir::Type offset_type = off->type;
  const ir::Extents shape =
      ptr->type.rank == 0 ? offset_type.shape()
      : off->type.rank == 0
          ? ptr->type.shape()
          : ir::Builder::broadcast_shape(ir::Type::tile(Dtype::i64, extents_of(ptr)), offset_type, "pointer +", p);
  ptr = broadcast_value(r, ptr, shape, p);
  off = broadcast_value(r, off, shape, p);
  return r.wrap(r.builder.ptr_add(ptr, off, p), both_valid(r, broadcast_mask(r, pointers.mask, shape, p),
                                                           broadcast_mask(r, offsets.mask, shape, p), p));
}

Raw load_pointers(const Raw& pointers, const LoadRequest& request, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* ptr = r.use(pointers, p);
  Value* keep = both_valid(r, pointers.mask, user_mask(r, request.mask, extents_of(ptr), p), p);
  const std::uint64_t pad = request.has_pad ? pad_bits(request.pad, ptr->type.elem) : 0;
  return r.wrap(r.builder.load_ptr(ptr, keep, pad, p, request.hint), request.has_pad ? nullptr : keep);
}

void store_pointers(const Raw& pointers, const Raw& value, const Raw& mask, const Place& place, std::string_view hint) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* ptr = r.use(pointers, p);
  const ExtentSpan extents = extents_of(ptr);
  Value* tile = broadcast_value(r, r.use(value, p), extents, p);
  Value* keep = both_valid(r, pointers.mask, broadcast_mask(r, value.mask, extents, p), p);
  keep = both_valid(r, keep, user_mask(r, mask, extents, p), p);
  r.builder.store_ptr(ptr, tile, keep, p, hint);
}

}  // namespace tileweave::record
