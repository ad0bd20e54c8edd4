// The interpreter on constants, shapes, conversions and the grid.
// Called by interpret.cpp for each op met.
#include <cmath>

#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {

std::array<std::int64_t, max_rank> coordinates(const Type& t, std::int64_t i) {
  std::array<std::int64_t, max_rank> at{};
  for (int a = t.rank; a-- > 0;) {
    const auto k = static_cast<std::size_t>(a);
    at[k] = i % t.extents[k];
    i /= t.extents[k];
  }
  return at;
}

std::int64_t row_major(const Type& t, const std::array<std::int64_t, max_rank>& at) {
  std::int64_t i = 0;
  for (int a = 0; a < t.rank; ++a) {
    const auto k = static_cast<std::size_t>(a);
    i = i * t.extents[k] + at[k];
  }
  return i;
}

namespace {

// Each element of the result is the operand's element at from(coordinates in the result).
template <class From>
void move_elements(Frame& f, const Op& op, From from) {
  const Type &in = op.operands[0]->type, &out = op.results[0]->type;
  const TileValue& x = f.get(op.operands[0]);
  TileValue y;
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const auto source = static_cast<std::size_t>(row_major(in, from(coordinates(out, i))));
    y.bits.push_back(x.bits[source]);
    if (!x.error.empty()) y.error.push_back(x.error[source]);
  }
  f.set(op.results[0], std::move(y));
}

void set_scalar(Frame& f, const Op& op, std::int64_t v) { f.set(op.results[0], {{static_cast<std::uint64_t>(v)}, {}}); }

std::size_t axis_of(const Op& op) { return static_cast<std::size_t>(op.attrs.get_int(AttrKey::axis)); }

}  // namespace

void interpret_constant(Frame& f, const Op& op) {
  const auto bits = static_cast<std::uint64_t>(op.attrs.get_int(AttrKey::value));
  f.set(op.results[0], {std::vector(static_cast<std::size_t>(op.results[0]->type.elements()), bits), {}});
}

void interpret_iota(Frame& f, const Op& op) {
  const Type& t = op.results[0]->type;
  TileValue y;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    y.bits.push_back(host::from_int(op.attrs.get_int(AttrKey::start) + i, t.elem));
  }
  f.set(op.results[0], std::move(y));
}

void interpret_program_id(Frame& f, const Op& op) { set_scalar(f, op, f.program[axis_of(op)]); }
void interpret_num_programs(Frame& f, const Op& op) { set_scalar(f, op, f.grid[axis_of(op)]); }
void interpret_extent(Frame& f, const Op& op) { set_scalar(f, op, f.views.at(op.operands[0]).extents[axis_of(op)]); }
void interpret_stride(Frame& f, const Op& op) { set_scalar(f, op, f.views.at(op.operands[0]).strides[axis_of(op)]); }

void interpret_broadcast(Frame& f, const Op& op) {
  const Type& in = op.operands[0]->type;
  move_elements(f, op, [&](std::array<std::int64_t, max_rank> at) {
    for (std::size_t k = 0; k < max_rank; ++k) {
      if (k >= static_cast<std::size_t>(in.rank) || in.extents[k] == 1) at[k] = 0;
    }
    return at;
  });
}

void interpret_expand_dims(Frame& f, const Op& op) {
  const std::size_t axis = axis_of(op);
  move_elements(f, op, [&](const std::array<std::int64_t, max_rank>& at) {
    std::array<std::int64_t, max_rank> from{};
    for (std::size_t k = 0; k < max_rank; ++k) {
      if (k != axis) from[k < axis ? k : k - 1] = at[k];
    }
    return from;
  });
}

void interpret_reshape(Frame& f, const Op& op) { f.set(op.results[0], f.get(op.operands[0])); }

void interpret_trans(Frame& f, const Op& op) {
  const auto& perm = op.attrs.get_list(AttrKey::perm);
  move_elements(f, op, [&](const std::array<std::int64_t, max_rank>& at) {
    std::array<std::int64_t, max_rank> from{};
    for (std::size_t k = 0; k < perm.size(); ++k) from[static_cast<std::size_t>(perm[k])] = at[k];
    return from;
  });
}

void interpret_convert(Frame& f, const Op& op) {
  const TileValue& x = f.get(op.operands[0]);
  const Dtype from = op.operands[0]->type.elem, to = op.results[0]->type.elem;
  const bool saturate = op.attrs.get_int(AttrKey::saturate) != 0;
  TileValue y;
  for (std::size_t i = 0; i < x.bits.size(); ++i) {
    y.bits.push_back(host::convert_bits(x.bits[i], from, to, saturate));
    if (!x.error.empty()) y.error.push_back(convert_error(x.bits[i], from, to, saturate, x.error[i]));
  }
  f.set(op.results[0], std::move(y));
}

void interpret_bitcast(Frame& f, const Op& op) {
  TileValue x = f.get(op.operands[0]);
  for (double& e : x.error) {
    if (e != 0) e = HUGE_VAL;  // the bits of an inexact value may be any
  }
  f.set(op.results[0], std::move(x));
}

}  // namespace tileweave::ir
