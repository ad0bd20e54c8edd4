// The interpreter on sort and argsort: the order of the elements, a stable sort of each line by it.
// Called by interpret.cpp for each op met.
#include <algorithm>
#include <cmath>

#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

// Bits whose unsigned order is that of the elements: -0 before +0, every NaN after all numbers.
std::uint64_t order_key(std::uint64_t bits, Dtype t) {
  const int width = dtype_info(t).bits;
  const std::uint64_t all = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  if (is_signed(t)) return (bits ^ sign) & all;
  if (!is_float(t)) return bits;
  if (std::isnan(host::to_double(bits, t))) return all;
  return (bits & sign) != 0 ? ~bits & all : bits | sign;
}

// The lanes of a line that count, in the order asked for; then those masked off.
std::vector<std::int64_t> sorted_lanes(Frame& f, const Op& op, Line line, std::size_t& counted) {
  const TileValue& x = f.get(op.operands[0]);
  const TileValue* mask = mask_of(f, op);
  const Dtype t = op.operands[0]->type.elem;
  std::vector<std::int64_t> lanes, absent;
  for (std::int64_t k = 0; k < line.length(); ++k)
    (is_masked_off(f, mask, line.element(k)) ? absent : lanes).push_back(k);
  const auto key = [&](std::int64_t k) { return order_key(x.bits[line.element(k)], t); };
  const bool down = op.attrs.get_int(AttrKey::descending) != 0;
  std::stable_sort(lanes.begin(), lanes.end(),
                   [&](std::int64_t a, std::int64_t b) { return down ? key(a) > key(b) : key(a) < key(b); });
  counted = lanes.size();
  lanes.insert(lanes.end(), absent.begin(), absent.end());
  return lanes;
}

void sort_lines(Frame& f, const Op& op, bool indices) {
  const Type& t = op.operands[0]->type;
  const auto axis = static_cast<std::size_t>(op.attrs.get_int(AttrKey::axis));
  const TileValue& x = f.get(op.operands[0]);
  TileValue y{std::vector<std::uint64_t>(x.bits.size(), 0), {}};
  if (f.bounds()) y.error.resize(x.bits.size());
  for (std::int64_t i = 0; i < line_count(t, axis); ++i) {
    Line line(t, axis, i);
    std::size_t counted = 0;
    const auto lanes = sorted_lanes(f, op, line, counted);
    double widest = 0;
    for (std::size_t k = 0; k < counted; ++k) widest = std::max(widest, x.error_at(line.element(lanes[k])));
    for (std::size_t k = 0; k < lanes.size(); ++k) {
      const std::size_t to = line.element(static_cast<std::int64_t>(k)), from = line.element(lanes[k]);
      if (indices) {
        y.bits[to] = static_cast<std::uint64_t>(lanes[k]);
      } else if (k < counted) {
        y.bits[to] = x.bits[from];
      }
      // Each place in the order moves no further than the lane that moved furthest; which lane it is may be any.
      if (f.bounds()) y.error[to] = indices && widest != 0 ? HUGE_VAL : widest;
    }
  }
  f.set(op.results[0], std::move(y));
}

}  // namespace

void interpret_sort(Frame& f, const Op& op) { sort_lines(f, op, false); }
void interpret_argsort(Frame& f, const Op& op) { sort_lines(f, op, true); }

}  // namespace tileweave::ir
