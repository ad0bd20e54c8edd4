// Type and shape rules of the grid, views and memory ops.
// Called through infer.cpp by the builder and the verifier.
#include "tileweave/jit/ir/infer.h"

namespace tileweave::ir {
namespace {

const Type& require_view(const OpShape& s) {
  if (s.operands.empty() || !s.operands[0]->type.is_view()) {
    refuse(s, "takes a view" + (s.operands.empty() ? std::string() : ", got " + to_string(s.operands[0]->type)));
  }
  return s.operands[0]->type;
}

const Type& require_pointer(const OpShape& s) {
  if (s.operands.empty() || !s.operands[0]->type.is_pointer()) {
    refuse(s,
           "takes a pointer tile" + (s.operands.empty() ? std::string() : ", got " + to_string(s.operands[0]->type)));
  }
  return s.operands[0]->type;
}

// Operands 1 .. rank are the offsets of a block of `view`.
void require_offsets(const OpShape& s, const Type& view) {
  const auto rank = static_cast<std::size_t>(view.rank);
  if (s.operands.size() < 1 + rank) {
    refuse(s, to_string(view) + " needs " + std::to_string(rank) + " offsets, got " +
                  std::to_string(s.operands.size() - 1));
  }
  for (std::size_t i = 0; i < rank; ++i) require_scalar_i64(s, s.operands[1 + i], "offset " + std::to_string(i));
}

void require_rank(const OpShape& s, const Type& view, std::size_t rank) {
  if (rank == static_cast<std::size_t>(view.rank)) return;
  refuse(s, "the block has " + std::to_string(rank) + (rank == 1 ? " axis, " : " axes, ") + to_string(view) + " has " +
                std::to_string(view.rank));
}

// Whether the op carries a mask as operand `at`; checks the count and that the attribute says the same.
bool has_mask(const OpShape& s, std::size_t at) {
  const bool masked = s.attrs.get_int(AttrKey::masked) != 0;
  require_operands(s, at + (masked ? 1 : 0), at + (masked ? 1 : 0));
  return masked;
}

void require_pad(const OpShape& s, Dtype t) {
  const int bits = dtype_info(t).bits;
  const auto pad = static_cast<std::uint64_t>(s.attrs.get_int(AttrKey::pad));
  if ((bits < 64 && pad >> bits != 0) || (is_bool(t) && pad > 1)) {
    refuse(s, "pad " + std::to_string(pad) + " does not fit the bits of " + std::string(dtype_name(t)));
  }
}

void require_writable(const OpShape& s, const Type& to, const Type& value) {
  if (to.is_const) refuse(s, "cannot write through the read-only " + to_string(to), "drop const from the parameter");
  if (!value.is_tile()) refuse(s, "the value is " + to_string(value) + ", it must be a tile");
  if (value.elem != to.elem) {
    refuse(s, "element types differ: value " + to_string(value) + ", destination " + to_string(to),
           "convert the value with .to<T>()");
  }
}

void require_hint(const OpShape& s) {
  const std::string& hint = s.attrs.get_text(AttrKey::hint);
  if (hint.empty() || hint == "streaming" || hint == "no_allocate" || hint == "keep" || hint == "volatile") {
    return;
  }
  refuse(s, "there is no cache hint '" + hint + "'", "streaming, no_allocate, keep and volatile are known");
}

std::vector<Type> grid_axis(const OpShape& s) {
  require_operands(s, 0, 0);
  const std::int64_t axis = s.attrs.get_int(AttrKey::axis, -1);
  if (axis < 0 || axis > 2) refuse(s, "there is no axis " + std::to_string(axis) + ", a grid has the axes 0, 1 and 2");
  return {Type::scalar(Dtype::i64)};
}

std::vector<Type> view_axis(const OpShape& s) {
  const Type& view = require_view(s);
  require_operands(s, 1, 1);
  require_axis(s, view.rank);
  return {Type::scalar(Dtype::i64)};
}

}  // namespace

std::vector<Type> infer_program_id(const OpShape& s) { return grid_axis(s); }
std::vector<Type> infer_num_programs(const OpShape& s) { return grid_axis(s); }
std::vector<Type> infer_extent(const OpShape& s) { return view_axis(s); }
std::vector<Type> infer_stride(const OpShape& s) { return view_axis(s); }

std::vector<Type> infer_inside(const OpShape& s) {
  const Type& view = require_view(s);
  require_offsets(s, view);
  require_operands(s, 1 + static_cast<std::size_t>(view.rank), 1 + static_cast<std::size_t>(view.rank));
  const auto& e = require_extents(s);
  require_rank(s, view, e.size());
  return {Type::tile(Dtype::boolean, e)};
}

std::vector<Type> infer_load(const OpShape& s) {
  require_hint(s);
  const Type& view = require_view(s);
  const auto rank = static_cast<std::size_t>(view.rank);
  require_offsets(s, view);
  const auto& e = require_extents(s);
  require_rank(s, view, e.size());
  const Type r = Type::tile(view.elem, e);
  if (has_mask(s, 1 + rank)) require_mask(s, s.operands[1 + rank], r);
  require_pad(s, view.elem);
  return {r};
}

std::vector<Type> infer_store(const OpShape& s) {
  require_hint(s);
  const Type& view = require_view(s);
  const auto rank = static_cast<std::size_t>(view.rank);
  require_offsets(s, view);
  const bool masked = has_mask(s, 2 + rank);
  const Type& value = s.operands[1 + rank]->type;
  require_writable(s, view, value);
  require_rank(s, view, static_cast<std::size_t>(value.rank));
  if (masked) require_mask(s, s.operands[2 + rank], value);
  return {};
}

std::vector<Type> infer_view_base(const OpShape& s) {
  const Type& view = require_view(s);
  require_operands(s, 1, 1);
  return {Type::pointer(view.elem, view.is_const, {})};
}

std::vector<Type> infer_ptr_add(const OpShape& s) {
  const Type& ptr = require_pointer(s);
  require_operands(s, 2, 2);
  const Type& offset = s.operands[1]->type;
  if (!offset.is_tile() || !is_int(offset.elem)) {
    refuse(s, "the offset is " + to_string(offset) + ", it must be an integer tile");
  }
  if (offset.rank != ptr.rank || offset.extents != ptr.extents) {
    refuse(s, "extents differ: pointer " + to_string(ptr) + ", offset " + to_string(offset));
  }
  return {ptr};
}

std::vector<Type> infer_load_ptr(const OpShape& s) {
  require_hint(s);
  const Type& ptr = require_pointer(s);
  const Type r = Type::tile(ptr.elem, ptr.shape());
  if (has_mask(s, 1)) require_mask(s, s.operands[1], r);
  require_pad(s, ptr.elem);
  return {r};
}

std::vector<Type> infer_store_ptr(const OpShape& s) {
  require_hint(s);
  const Type& ptr = require_pointer(s);
  const bool masked = has_mask(s, 2);
  const Type& value = s.operands[1]->type;
  require_writable(s, ptr, value);
  if (value.rank != ptr.rank || value.extents != ptr.extents) {
    refuse(s, "extents differ: pointer " + to_string(ptr) + ", value " + to_string(value));
  }
  if (masked) require_mask(s, s.operands[2], value);
  return {};
}

}  // namespace tileweave::ir
