// How far another order of summation may move a value: the bounds the interpreter carries beside its results.
// Exact values (0) need to agree bit for bit; every other op is evaluated at the ends of its operands' ranges.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

struct FloatLimits {
  double unit;      // half a unit in the last place of 1
  double smallest;  // positive
  double largest;
};

FloatLimits limits_of(Dtype t) {
  return visit_dtype(t, [](auto tag) -> FloatLimits {
    using L = std::numeric_limits<typename decltype(tag)::type>;
    return {static_cast<double>(L::epsilon()) / 2, static_cast<double>(L::denorm_min()), static_cast<double>(L::max())};
  });
}

// One rounding of a value of this size.
double rounding(double value, Dtype t) {
  if (!is_float(t)) return 0;
  const FloatLimits l = limits_of(t);
  return 2 * l.unit * std::fabs(value) + l.smallest;
}

// The distance between two results: infinite where one is not finite and the other differs.
double distance(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == b) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : HUGE_VAL;
}

// Ops that turn back between the ends of a range, so that only narrow ranges are trusted.
bool is_wavy(OpId id) {
  return id == OpId::sin || id == OpId::cos || id == OpId::tan || id == OpId::rem || id == OpId::pow ||
         id == OpId::atan2;
}

// The elements of `t` at both ends of the range around `bits`.
std::array<std::uint64_t, 2> ends(std::uint64_t bits, Dtype t, double error) {
  if (error == 0) return {bits, bits};
  const double v = host::to_double(bits, t);
  return {host::from_double(v - error, t), host::from_double(v + error, t)};
}

// The whole range of results in f64, over all combinations of the operands' ends.
double spread(OpId id, std::span<const std::uint64_t> operands, std::span<const double> errors, Dtype t) {
  const Dtype wide = is_float(t) ? Dtype::f64 : t;
  const OpInfo& info = op_info(id);
  const host::LaneFunction lane = host::lane_function(id, wide);
  const Dtype result = info.types == OpTypes::Compare || info.types == OpTypes::Test ? Dtype::boolean : wide;
  std::array<std::uint64_t, 3> centre{};
  std::array<std::array<std::uint64_t, 2>, 3> range{};
  for (std::size_t k = 0; k < operands.size(); ++k) {
    centre[k] = host::convert_bits(operands[k], t, wide);
    range[k] = ends(centre[k], wide, errors[k]);
  }
  const double middle = host::to_double(lane(centre[0], centre[1], centre[2]), result);
  double widest = 0;
  for (unsigned corner = 0; corner < 1u << operands.size(); ++corner) {
    const std::uint64_t bits = lane(range[0][corner & 1], range[1][corner >> 1 & 1], range[2][corner >> 2 & 1]);
    widest = std::max(widest, distance(host::to_double(bits, result), middle));
  }
  if (result == Dtype::boolean || !is_float(result)) return widest == 0 ? 0.0 : HUGE_VAL;
  return widest + rounding(middle, t);
}

double where_error(std::span<const std::uint64_t> operands, std::span<const double> errors) {
  if (errors[0] == 0) return operands[0] != 0 ? errors[1] : errors[2];
  return operands[1] == operands[2] ? std::max(errors[1], errors[2]) : HUGE_VAL;
}

}  // namespace

double elementwise_error(OpId id, Dtype t, std::span<const std::uint64_t> operands, std::span<const double> errors) {
  double widest = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) widest = std::max(widest, errors[k]);
  if (widest == 0) return 0;
  if (id == OpId::where) return where_error(operands, errors);
  if (std::isinf(widest) || (is_wavy(id) && widest > 1e-3)) return HUGE_VAL;
  if (is_bool(t)) return HUGE_VAL;
  const double e = spread(id, operands, errors, t);
  // A result near the largest finite value may round past it.
  if (e != 0 && is_float(t)) {
    const double v = host::to_double(host::eval_elementwise(id, t, operands), t);
    if (op_info(id).types != OpTypes::Compare && op_info(id).types != OpTypes::Test &&
        std::fabs(v) + e >= limits_of(t).largest) {
      return HUGE_VAL;
    }
  }
  return e;
}

double convert_error(std::uint64_t bits, Dtype from, Dtype to, bool saturate, double error) {
  if (error == 0) return 0;
  if (std::isinf(error)) return HUGE_VAL;
  const Dtype wide = is_float(from) ? Dtype::f64 : from;
  const auto value_of = [&](std::uint64_t b) { return host::to_double(host::convert_bits(b, wide, to, saturate), to); };
  const std::uint64_t centre = host::convert_bits(bits, from, wide);
  const double middle = value_of(centre);
  double widest = 0;
  for (const std::uint64_t end : ends(centre, wide, error)) widest = std::max(widest, distance(value_of(end), middle));
  if (!is_float(to)) return widest == 0 ? 0.0 : HUGE_VAL;
  return widest;
}

namespace {
// Whether what is too large for the type becomes its largest number.
bool saturates(Dtype t) { return std::isfinite(host::to_double(host::from_double(HUGE_VAL, t), t)); }
}  // namespace

double sum_error(std::span<const double> terms, std::span<const double> errors, Dtype t, Dtype result, bool products) {
  double size = 0, own = 0, sum = 0;
  for (std::size_t k = 0; k < terms.size(); ++k) {
    if (!std::isfinite(terms[k])) {
      // Infinities and NaN win in every order, as long as they are certain. Not so an infinity in a type that
      // saturates: the first sum makes it the largest number, and what comes after can take it away again.
      const bool is_certain = std::all_of(errors.begin(), errors.end(), [](double e) { return e == 0; });
      const bool has_nan = std::any_of(terms.begin(), terms.end(), [](double v) { return std::isnan(v); });
      return is_certain && (has_nan || !saturates(t) || terms.size() == 1) ? 0.0 : HUGE_VAL;
    }
    size += std::fabs(terms[k]);
    own += errors[k];
    sum += terms[k];
  }
  const FloatLimits l = limits_of(t);
  const auto n = static_cast<double>(terms.size()) + (products ? static_cast<double>(terms.size()) : 0.0);
  if (size + own >= l.largest / 2) return HUGE_VAL;  // some order may overflow on the way
  // One term is exact but for the sign of zero; a product may lose denormal bits.
  double e = own + (terms.size() <= 1 && !products ? 0.0 : n * 2 * l.unit * (size + own) + n * l.smallest);
  if (sum == 0) e = std::max(e, l.smallest);
  if (e == 0 || result == t) return e;
  return convert_error(host::from_double(sum, Dtype::f64), Dtype::f64, result, false, e) + rounding(sum, result);
}

double prod_error(std::span<const double> terms, std::span<const double> errors, Dtype t, Dtype result) {
  double product = 1, high = 1, low = 1, relative = 0;
  for (std::size_t k = 0; k < terms.size(); ++k) {
    const double m = std::fabs(terms[k]);
    if (!std::isfinite(m) || (m == 0 && errors[k] != 0)) return HUGE_VAL;
    product *= terms[k];
    if (m != 0) relative += errors[k] / m;
    high *= std::max(m, 1.0);
    low *= m == 0 ? 1.0 : std::min(m, 1.0);
  }
  const FloatLimits l = limits_of(t);
  // Some order may overflow, or fall under the normal range, on the way.
  if (high >= l.largest / 2 || low <= l.smallest / l.unit || relative > 0.1) {
    return terms.size() <= 1 ? (terms.empty() ? 0.0 : errors[0]) : HUGE_VAL;
  }
  if (terms.size() <= 1 && relative == 0) return 0;
  const double e = std::fabs(product) * (2 * relative + 2 * l.unit * static_cast<double>(terms.size()));
  if (e == 0 || result == t) return e;
  return convert_error(host::from_double(product, Dtype::f64), Dtype::f64, result, false, e) +
         rounding(product, result);
}

}  // namespace tileweave::ir
