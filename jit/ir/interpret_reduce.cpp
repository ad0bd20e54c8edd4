// The interpreter on reductions and dot: one accumulator, ascending along the axis.
// Called by interpret.cpp for each op met.
#include <algorithm>
#include <cmath>

#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

// Narrow floats accumulate in f32.
Dtype accumulator_of(Dtype t) { return is_narrow_float(t) ? Dtype::f32 : t; }

// The elements of a line that the mask keeps, as accumulator bits.
struct Lanes {
  std::vector<std::uint64_t> bits;
  std::vector<std::int64_t> index;
  std::vector<double> error;
  bool exact = true;
};

Lanes lanes_of(Frame& f, const Op& op, Line line, Dtype accumulator) {
  const TileValue& x = f.get(op.operands[0]);
  const TileValue* mask = mask_of(f, op);
  Lanes lanes;
  for (std::int64_t k = 0; k < line.length(); ++k) {
    const std::size_t at = line.element(k);
    if (mask != nullptr && mask->error_at(at) != 0) f.undetermined();
    if (mask != nullptr && mask->bits[at] == 0) continue;
    lanes.bits.push_back(host::convert_bits(x.bits[at], op.operands[0]->type.elem, accumulator));
    lanes.index.push_back(k);
    lanes.error.push_back(x.error_at(at));
    lanes.exact = lanes.exact && x.error_at(at) == 0;
  }
  return lanes;
}

double reduce_error(const Lanes& lanes, Combine c, Dtype accumulator, Dtype result, std::uint64_t value) {
  if (!is_float(accumulator)) return lanes.exact ? 0.0 : HUGE_VAL;
  std::vector<double> terms;
  for (const std::uint64_t b : lanes.bits) terms.push_back(host::to_double(b, accumulator));
  if (c == Combine::sum) return sum_error(terms, lanes.error, accumulator, result, false);
  if (c == Combine::prod) return prod_error(terms, lanes.error, accumulator, result);
  double widest = 0;
  for (const double e : lanes.error) widest = std::max(widest, e);
  return widest == 0 ? 0.0 : convert_error(value, accumulator, result, false, widest);
}

std::size_t axis_of(const Op& op) { return static_cast<std::size_t>(op.attrs.get_int(AttrKey::axis)); }

// Whether `x` takes the place of the best so far: strictly better, or the first NaN.
bool is_better(double x, double best, bool max) {
  if (std::isnan(best)) return false;
  return std::isnan(x) || (max ? x > best : x < best);
}
bool is_better(std::int64_t x, std::int64_t best, bool max) { return max ? x > best : x < best; }
bool is_better(std::uint64_t x, std::uint64_t best, bool max) { return max ? x > best : x < best; }

template <class T>
std::int64_t best_index(const Lanes& lanes, bool max, T value_of(std::uint64_t, Dtype), Dtype t) {
  std::size_t best = 0;
  for (std::size_t k = 1; k < lanes.bits.size(); ++k) {
    if (is_better(value_of(lanes.bits[k], t), value_of(lanes.bits[best], t), max)) best = k;
  }
  return lanes.bits.empty() ? 0 : lanes.index[best];
}

std::int64_t best_index(const Lanes& lanes, bool max, Dtype t) {
  if (is_float(t)) return best_index<double>(lanes, max, host::to_double, t);
  if (is_signed(t)) return best_index<std::int64_t>(lanes, max, host::to_int64, t);
  return best_index<std::uint64_t>(lanes, max, [](std::uint64_t b, Dtype) { return b; }, t);
}

// An f32 rounded to the 10 fraction bits of tf32, to nearest even.
std::uint64_t to_tf32(std::uint64_t bits) {
  const std::uint64_t dropped = bits & 0x1fff, kept = bits & ~std::uint64_t{0x1fff};
  if ((bits & 0x7f800000) == 0x7f800000) return (bits & 0x7fffff) != 0 ? bits | 0x400000 : bits;
  const bool up = dropped > 0x1000 || (dropped == 0x1000 && (kept & 0x2000) != 0);
  return (kept + (up ? 0x2000 : 0)) & 0xffffffff;
}

}  // namespace

Line::Line(const Type& x, std::size_t axis, std::int64_t i) : x_(x), axis_(axis) {
  for (std::size_t k = static_cast<std::size_t>(x.rank); k-- > 0;) {
    if (k == axis) continue;
    at_[k] = i % x.extents[k];
    i /= x.extents[k];
  }
}

std::size_t Line::element(std::int64_t k) {
  at_[axis_] = k;
  return static_cast<std::size_t>(row_major(x_, at_));
}

std::int64_t line_count(const Type& x, std::size_t axis) { return x.elements() / x.extents[axis]; }

std::uint64_t identity_of(Combine c, Dtype t) {
  switch (c) {
    case Combine::sum:
    case Combine::bit_or:
    case Combine::bit_xor:
      return 0;
    case Combine::prod:
      return host::from_int(1, t);
    case Combine::bit_and:
      return is_bool(t) ? 1 : host::from_int(-1, t);
    case Combine::fmin:
    case Combine::fmax:
      if (is_float(t)) return host::from_double(std::nan(""), t);
      break;
    case Combine::min:
    case Combine::max:
      break;
  }
  const bool low = c == Combine::max || c == Combine::fmax;
  return host::from_double(low ? -HUGE_VAL : HUGE_VAL, t);  // saturates to the integers' ends
}

void interpret_reduce(Frame& f, const Op& op) {
  const Type &x = op.operands[0]->type, &out = op.results[0]->type;
  const Combine c = combine_from_name(op.attrs.get_text(AttrKey::combine)).value();
  const Dtype accumulator = accumulator_of(x.elem);
  const host::LaneFunction step = host::lane_function(combine_op(c), accumulator);
  TileValue y;
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const Lanes lanes = lanes_of(f, op, Line(x, axis_of(op), i), accumulator);
    std::uint64_t acc = identity_of(c, accumulator);
    for (const std::uint64_t b : lanes.bits) acc = step(acc, b, 0);
    y.bits.push_back(host::convert_bits(acc, accumulator, x.elem));
    if (f.bounds()) y.error.push_back(reduce_error(lanes, c, accumulator, x.elem, acc));
  }
  f.set(op.results[0], std::move(y));
}

void interpret_arg_reduce(Frame& f, const Op& op) {
  const Type &x = op.operands[0]->type, &out = op.results[0]->type;
  const bool max = op.attrs.get_text(AttrKey::combine) == "max";
  TileValue y;
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const Lanes lanes = lanes_of(f, op, Line(x, axis_of(op), i), x.elem);
    y.bits.push_back(static_cast<std::uint64_t>(best_index(lanes, max, x.elem)));
    if (f.bounds()) y.error.push_back(lanes.exact ? 0.0 : HUGE_VAL);
  }
  f.set(op.results[0], std::move(y));
}

void interpret_dot(Frame& f, const Op& op) {
  const Type &a = op.operands[0]->type, &b = op.operands[1]->type, &out = op.results[0]->type;
  const TileValue &x = f.get(op.operands[0]), &w = f.get(op.operands[1]), &acc = f.get(op.operands[2]);
  const auto row = static_cast<std::size_t>(out.rank - 2), column = row + 1;
  const bool tf32 = op.attrs.get_text(AttrKey::precision) == "tf32";
  const host::LaneFunction fma = host::lane_function(OpId::fma, out.elem);
  const auto read = [&](std::uint64_t bits, Dtype t) {
    const std::uint64_t v = host::convert_bits(bits, t, out.elem);
    return tf32 ? to_tf32(v) : v;
  };
  TileValue y;
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    auto at_a = coordinates(out, i), at_b = at_a;
    const auto o = static_cast<std::size_t>(i);
    std::uint64_t sum = acc.bits[o];
    std::vector<double> terms{host::to_double(sum, out.elem)}, errors{acc.error_at(o)};
    for (std::int64_t k = 0; k < a.extents[column]; ++k) {
      at_a[column] = k;
      at_b[row] = k;
      const auto ia = static_cast<std::size_t>(row_major(a, at_a)), ib = static_cast<std::size_t>(row_major(b, at_b));
      const std::uint64_t p = read(x.bits[ia], a.elem), q = read(w.bits[ib], b.elem);
      sum = fma(p, q, sum);
      if (!f.bounds()) continue;
      const double dp = host::to_double(p, out.elem), dq = host::to_double(q, out.elem);
      const double ep = x.error_at(ia), eq = w.error_at(ib);
      terms.push_back(dp * dq);
      errors.push_back(ep == 0 && eq == 0 ? 0.0 : std::fabs(dp) * eq + std::fabs(dq) * ep + ep * eq);
    }
    y.bits.push_back(sum);
    if (!f.bounds()) continue;
    if (is_float(out.elem)) {
      y.error.push_back(sum_error(terms, errors, out.elem, out.elem, true));
    } else {
      y.error.push_back(std::all_of(errors.begin(), errors.end(), [](double e) { return e == 0; }) ? 0.0 : HUGE_VAL);
    }
  }
  f.set(op.results[0], std::move(y));
}

}  // namespace tileweave::ir
