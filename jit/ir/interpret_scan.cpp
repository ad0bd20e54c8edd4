// The interpreter on scan and fold: one lane after another, the region run for each.
// Called by interpret.cpp for each op met.
#include <algorithm>
#include <cmath>

#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

// The one op that a region is, where it combines one value by a single op of its two arguments.
const Op* single_op(const Region& r) {
  if (r.args.size() != 2 || r.ops.size() != 2) return nullptr;
  const Op& op = *r.ops[0];
  if (!is_elementwise(op.id) || op.operands.size() != 2 || r.ops[1]->operands[0] != op.results[0]) return nullptr;
  const bool both = (op.operands[0] == r.args[0] && op.operands[1] == r.args[1]) ||
                    (op.operands[0] == r.args[1] && op.operands[1] == r.args[0]);
  return both ? &op : nullptr;
}

// Whether the region's results are the same in every order of combining, given that it is associative at all: it rounds
// nothing.
bool is_order_free(const Region& r) {
  return std::ranges::all_of(r.ops, [](const auto& op) {
    switch (op->id) {
      case OpId::where:
      case OpId::constant:
      case OpId::yield:
      case OpId::minimum:
      case OpId::maximum:
      case OpId::fmin:
      case OpId::fmax:
        return true;
      default:
        return op->operands.empty() || !is_float(op->results[0]->type.elem);
    }
  });
}

// What has been combined so far, and what an error bound needs to know of it.
struct Running {
  std::vector<TileValue> values;  // empty before the first lane
  std::vector<double> terms, errors;

  bool exact() const {
    return std::ranges::all_of(errors, [](double e) { return e == 0; });
  }
};

double running_error(const Running& now, const Region& r, Dtype t) {
  const bool alone = now.terms.size() <= 1;
  if (!is_float(t)) return now.exact() && (alone || is_order_free(r)) ? 0.0 : HUGE_VAL;
  if (alone) return now.errors[0];
  const Op* op = single_op(r);
  if (op != nullptr && op->id == OpId::add) return sum_error(now.terms, now.errors, t, t, false);
  if (op != nullptr && op->id == OpId::mul) return prod_error(now.terms, now.errors, t, t);
  if (now.exact() && is_order_free(r)) return 0;
  const bool picks = op != nullptr && is_order_free(r);
  return picks ? *std::ranges::max_element(now.errors) : HUGE_VAL;
}

class Combination {
 public:
  Combination(Frame& f, const Op& op) : f_(f), op_(op), r_(*op.regions[0]), count_(op.results.size()) {}

  // Takes the elements at `at` in.
  void step(Running& now, std::size_t at) {
    std::vector<TileValue> lane;
    for (std::size_t i = 0; i < count_; ++i) lane.push_back({{f_.get(op_.operands[i]).bits[at]}, {}});
    if (f_.bounds()) {
      double widest = 0;
      for (std::size_t i = 0; i < count_; ++i) widest = std::max(widest, f_.get(op_.operands[i]).error_at(at));
      now.errors.push_back(widest);
      now.terms.push_back(host::to_double(lane[0].bits[0], op_.results[0]->type.elem));
    }
    if (now.values.empty()) {
      now.values = std::move(lane);
      return;
    }
    std::vector<TileValue> args = std::move(now.values);
    std::ranges::move(lane, std::back_inserter(args));
    now.values = f_.run_region(r_, std::move(args));
    for (TileValue& v : now.values) v.error.clear();
  }

  double error(const Running& now, std::size_t i) const { return running_error(now, r_, op_.results[i]->type.elem); }

 private:
  Frame& f_;
  const Op& op_;
  const Region& r_;
  std::size_t count_;
};

std::size_t axis_of(const Op& op) { return static_cast<std::size_t>(op.attrs.get_int(AttrKey::axis)); }

}  // namespace

void interpret_scan(Frame& f, const Op& op) {
  const Type& t = op.operands[0]->type;
  const TileValue* mask = mask_of(f, op);
  const std::size_t count = op.results.size(), n = static_cast<std::size_t>(t.elements());
  const bool reverse = op.attrs.get_int(AttrKey::reverse) != 0;
  std::vector<TileValue> out(count, {std::vector<std::uint64_t>(n, 0), std::vector<double>(f.bounds() ? n : 0, 0.0)});
  Combination combine(f, op);
  for (std::int64_t i = 0; i < line_count(t, axis_of(op)); ++i) {
    Line line(t, axis_of(op), i);
    Running now;
    for (std::int64_t k = 0; k < line.length(); ++k) {
      const std::size_t at = line.element(reverse ? line.length() - 1 - k : k);
      if (is_masked_off(f, mask, at)) continue;
      combine.step(now, at);
      for (std::size_t v = 0; v < count; ++v) {
        out[v].bits[at] = now.values[v].bits[0];
        if (f.bounds()) out[v].error[at] = combine.error(now, v);
      }
    }
  }
  for (std::size_t v = 0; v < count; ++v) f.set(op.results[v], std::move(out[v]));
}

void interpret_fold(Frame& f, const Op& op) {
  const Type& t = op.operands[0]->type;
  const TileValue* mask = mask_of(f, op);
  std::vector<TileValue> out(op.results.size());
  Combination combine(f, op);
  for (std::int64_t i = 0; i < line_count(t, axis_of(op)); ++i) {
    Line line(t, axis_of(op), i);
    Running now;
    for (std::int64_t k = 0; k < line.length(); ++k) {
      const std::size_t at = line.element(k);
      if (!is_masked_off(f, mask, at)) combine.step(now, at);
    }
    for (std::size_t v = 0; v < out.size(); ++v) {
      out[v].bits.push_back(now.values.empty() ? 0 : now.values[v].bits[0]);
      if (f.bounds()) out[v].error.push_back(now.values.empty() ? 0.0 : combine.error(now, v));
    }
  }
  for (std::size_t v = 0; v < out.size(); ++v) f.set(op.results[v], std::move(out[v]));
}

}  // namespace tileweave::ir
