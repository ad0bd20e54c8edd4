// The interpreter on ops that move elements about: slice, cat, flip, gather, histogram.
// Called by interpret.cpp for each op met.
#include <cmath>

#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

using Coordinates = std::array<std::int64_t, max_rank>;

std::size_t axis_of(const Op& op) { return static_cast<std::size_t>(op.attrs.get_int(AttrKey::axis)); }

void append(TileValue& y, const TileValue& x, const Type& t, const Coordinates& at) {
  const auto i = static_cast<std::size_t>(row_major(t, at));
  y.bits.push_back(x.bits[i]);
  y.error.push_back(x.error_at(i));
}

// The result, element by element in row-major order, by append.
template <class Append>
void make(Frame& f, const Op& op, Append each) {
  TileValue y;
  for (std::int64_t i = 0; i < op.results[0]->type.elements(); ++i) each(y, coordinates(op.results[0]->type, i));
  if (!f.bounds()) y.error.clear();
  f.set(op.results[0], std::move(y));
}

}  // namespace

void interpret_slice(Frame& f, const Op& op) {
  const auto& starts = op.attrs.get_list(AttrKey::starts);
  make(f, op, [&](TileValue& y, Coordinates at) {
    for (std::size_t k = 0; k < starts.size(); ++k) at[k] += starts[k];
    append(y, f.get(op.operands[0]), op.operands[0]->type, at);
  });
}

void interpret_cat(Frame& f, const Op& op) {
  const std::size_t axis = axis_of(op);
  const std::int64_t first = op.operands[0]->type.extents[axis];
  make(f, op, [&](TileValue& y, Coordinates at) {
    const std::size_t side = at[axis] < first ? 0 : 1;
    if (side == 1) at[axis] -= first;
    append(y, f.get(op.operands[side]), op.operands[side]->type, at);
  });
}

void interpret_flip(Frame& f, const Op& op) {
  const std::size_t axis = axis_of(op);
  const Type& t = op.operands[0]->type;
  make(f, op, [&](TileValue& y, Coordinates at) {
    at[axis] = t.extents[axis] - 1 - at[axis];
    append(y, f.get(op.operands[0]), t, at);
  });
}

void interpret_gather(Frame& f, const Op& op) {
  const std::size_t axis = axis_of(op);
  const Type &t = op.operands[0]->type, &of_index = op.operands[1]->type;
  const TileValue &x = f.get(op.operands[0]), &index = f.get(op.operands[1]);
  make(f, op, [&](TileValue& y, Coordinates at) {
    const auto i = static_cast<std::size_t>(row_major(of_index, at));
    const std::int64_t k = host::to_int64(index.bits[i], of_index.elem);
    const bool outside = (is_unsigned(of_index.elem) && k < 0) || k < 0 || k >= t.extents[axis];
    at[axis] = outside ? 0 : k;
    append(y, x, t, at);
    if (outside) y.bits.back() = 0;
    if (outside) y.error.back() = 0;
    if (index.error_at(i) != 0) y.error.back() = HUGE_VAL;
  });
}

void interpret_histogram(Frame& f, const Op& op) {
  const Dtype t = op.operands[0]->type.elem;
  const TileValue& x = f.get(op.operands[0]);
  const TileValue* mask = mask_of(f, op);
  const auto bins = static_cast<std::uint64_t>(op.results[0]->type.extents[0]);
  TileValue y{std::vector<std::uint64_t>(bins, 0), {}};
  bool exact = true;
  for (std::size_t i = 0; i < x.bits.size(); ++i) {
    if (is_masked_off(f, mask, i)) continue;
    exact = exact && x.error_at(i) == 0;
    const auto bin = static_cast<std::uint64_t>(host::to_int64(x.bits[i], t));  // a negative one is past all bins
    if (bin < bins) ++y.bits[bin];
  }
  if (!exact) y.error.assign(bins, HUGE_VAL);
  f.set(op.results[0], std::move(y));
}

}  // namespace tileweave::ir
