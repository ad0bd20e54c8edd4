// Type and shape rules of the ops that move elements about: slice, cat, flip, gather, sort, argsort, histogram.
// Part of infer.h's dispatch.
#include "tileweave/jit/ir/infer.h"

namespace tileweave::ir {
namespace {

const Type& require_first_tile(const OpShape& s, std::size_t operands) {
  require_operands(s, operands, operands);
  const Type& x = s.operands[0]->type;
  if (x.is_view()) refuse(s, "takes a tile, got " + to_string(x));
  return x;
}

// x, and the mask where `masked` says that there is one.
const Type& require_maskable(const OpShape& s) {
  const bool masked = s.attrs.get_int(AttrKey::masked) != 0;
  require_operands(s, masked ? 2 : 1, masked ? 2 : 1);
  require_tile(s, s.operands[0], "operand");
  const Type& x = s.operands[0]->type;
  if (masked) require_mask(s, s.operands[1], x);
  return x;
}

std::string list_text(const std::vector<std::int64_t>& e) {
  std::string out = "{";
  for (std::size_t i = 0; i < e.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(e[i]);
  return out + "}";
}

}  // namespace

std::vector<Type> infer_slice(const OpShape& s) {
  const Type& x = require_first_tile(s, 1);
  const auto& starts = s.attrs.get_list(AttrKey::starts);
  const auto& extents = require_extents(s);
  const auto rank = static_cast<std::size_t>(x.rank);
  if (starts.size() != rank || extents.size() != rank) {
    refuse(s, "needs a start and an extent for each axis of " + to_string(x) + ", got starts " + list_text(starts) +
                  " and extents " + list_text(extents));
  }
  for (std::size_t k = 0; k < rank; ++k) {
    if (starts[k] >= 0 && starts[k] <= x.extents[k] && extents[k] <= x.extents[k] - starts[k]) continue;
    refuse(s, "the block of extents " + list_text(extents) + " at " + list_text(starts) + " is not inside " +
                  to_string(x));
  }
  return {x.with_shape(extents)};
}

std::vector<Type> infer_cat(const OpShape& s) {
  const Type& a = require_first_tile(s, 2);
  const Type& b = s.operands[1]->type;
  const auto axis = static_cast<std::size_t>(require_axis(s, a.rank));
  if (a.kind != b.kind || a.elem != b.elem) {
    refuse(s, "element types differ: lhs " + to_string(a) + ", rhs " + to_string(b),
           "convert one of them with .to<T>()");
  }
  bool fits = a.rank == b.rank;
  for (std::size_t k = 0; fits && k < static_cast<std::size_t>(a.rank); ++k) {
    fits = k == axis || a.extents[k] == b.extents[k];
  }
  if (!fits) {
    refuse(s, "extents differ: lhs " + to_string(a) + ", rhs " + to_string(b),
           "all axes but axis " + std::to_string(axis) + " must be equal");
  }
  Extents e = a.shape();
  e[axis] += b.extents[axis];
  return {a.with_shape(e)};
}

std::vector<Type> infer_flip(const OpShape& s) {
  const Type& x = require_first_tile(s, 1);
  require_axis(s, x.rank);
  return {x};
}

std::vector<Type> infer_gather(const OpShape& s) {
  const Type& x = require_first_tile(s, 2);
  require_tile(s, s.operands[1], "the index");
  const Type& index = s.operands[1]->type;
  const auto axis = static_cast<std::size_t>(require_axis(s, x.rank));
  if (!is_int(index.elem)) {
    refuse(s, "the index is " + to_string(index) + ", it must be integers", "convert it with .to<int>()");
  }
  bool fits = x.rank == index.rank;
  for (std::size_t k = 0; fits && k < static_cast<std::size_t>(x.rank); ++k) {
    fits = k == axis || x.extents[k] == index.extents[k];
  }
  if (!fits) {
    refuse(s, "extents differ: the tile is " + to_string(x) + ", the index " + to_string(index),
           "all axes but axis " + std::to_string(axis) + " must be equal");
  }
  return {x.with_shape(index.shape())};
}

std::vector<Type> infer_sort(const OpShape& s) {
  const Type& x = require_maskable(s);
  require_axis(s, x.rank);
  return {x};
}

std::vector<Type> infer_argsort(const OpShape& s) { return {infer_sort(s)[0].with_elem(Dtype::i32)}; }

std::vector<Type> infer_histogram(const OpShape& s) {
  const Type& x = require_maskable(s);
  if (x.rank != 1 || !is_int(x.elem)) {
    refuse(s, "takes integers of one axis, got " + to_string(x),
           is_int(x.elem) ? "flatten it with tw::ravel" : "convert it with .to<int>()");
  }
  const auto& bins = require_extents(s);
  if (bins.size() != 1) refuse(s, "needs one number of bins, got " + list_text(bins));
  return {Type::tile(Dtype::i32, bins)};
}

}  // namespace tileweave::ir
