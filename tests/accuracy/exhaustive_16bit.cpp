// Measures the short forms of GPUs (jit/ir/short_forms.def): every f16 and bf16 input, and f32 inputs over their whole
// range, on a model of the approximate instructions that errs both ways as far as the PTX manual lets them.
// Exits with 1 where an error exceeds the table's bound or a special value is wrong; results: docs/accuracy.md.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "tileweave/jit/base/dtype.h"
#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/base/meaning/short_forms.h"

namespace {

using tileweave::bf16;
using tileweave::f16;

// An f32 whose approximate instructions are off by this much, relative to the exact result.
struct Model {
  float value;
  static inline double power_error = 0, root_error = 0;
};
Model operator+(Model a, Model b) { return {a.value + b.value}; }
Model operator*(Model a, Model b) { return {a.value * b.value}; }

float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float off_by(double exact, double error) { return static_cast<float>(exact * (1 + error)); }

}  // namespace

namespace tileweave::short_forms {

template <>
struct Approx<Model> {
  static Model constant(Model, double c) { return {static_cast<float>(c)}; }
  static Model fma(Model a, Model b, Model c) { return {std::fma(a.value, b.value, c.value)}; }
  static Model abs(Model a) { return {std::fabs(a.value)}; }
  static Model lesser(Model a, Model b) { return {std::fmin(a.value, b.value)}; }
  static Model greater(Model a, Model b) {
    if (std::isnan(a.value) || std::isnan(b.value)) return {std::numeric_limits<float>::quiet_NaN()};
    if (a.value == b.value) return std::signbit(a.value) ? b : a;  // +0 is the greater zero
    return a.value > b.value ? a : b;
  }
  static Model choose_below(Model a, Model b, Model yes, Model no) { return a.value < b.value ? yes : no; }
  static Model ex2(Model a) { return {off_by(std::exp2(double{a.value}), Model::power_error)}; }
  static Model ex2_ftz(Model a) { return {flush(ex2({flush(a.value)}).value)}; }
  static Model rcp_ftz(Model a) { return {flush(off_by(1 / double{flush(a.value)}, Model::root_error))}; }
  static Model rsqrt(Model a) { return {off_by(1 / std::sqrt(double{a.value}), Model::root_error)}; }
  static Model sqrt(Model a) { return {off_by(std::sqrt(double{a.value}), Model::root_error)}; }
};

}  // namespace tileweave::short_forms

namespace {

// --- References in double precision.
namespace reference {
constexpr double infinity = std::numeric_limits<double>::infinity();
double gated(double x, double y) { return x == -infinity ? -0.0 : x / (1 + std::exp(-y)); }
double gelu(double x, double) { return x == -infinity ? -0.0 : 0.5 * x * std::erfc(-x * 0.70710678118654752440); }
double gelu_derivative(double x, double) {
  if (x == -infinity) return -0.0;
  const double g = 0.5 * std::erfc(std::fabs(x) * 0.70710678118654752440) -
                   std::fmin(std::fabs(x), 100.0) * 0.39894228040143267794 * std::exp(-0.5 * x * x);
  return x < 0 ? g : 1 - g;
}
double gelu_tanh(double x, double) { return gated(x, 1.5957691216057307117598 * x * (1.0 + 0.044715 * x * x)); }
double gelu_sigmoid(double x, double) { return gated(x, 1.702 * x); }
double silu(double x, double) { return gated(x, x); }
double sigmoid(double x, double) { return 1 / (1 + std::exp(-x)); }
double tanh(double x, double) { return std::tanh(x); }
double exp(double x, double) { return std::exp(x); }
double exp2(double x, double) { return std::exp2(x); }
double exp10(double x, double) { return ::exp10(x); }
double rsqrt(double x, double) { return 1 / std::sqrt(x); }
double sqrt(double x, double) { return std::sqrt(x); }
double div(double x, double y) { return x / y; }
}  // namespace reference

struct Row {
  const char* name;
  bool is_f16, is_scaled;
  Model (*form)(const Model&, const Model&);
  double (*exact)(double, double);
  double bound;
};
using V = Model;
using namespace tileweave::short_forms;
constexpr bool two_operands(const char* name) { return std::string_view(name) == "div"; }
constexpr bool bf16_of(std::string_view type) { return type == "bf16"; }
const Row rows[] = {
#define TILEWEAVE_SHORT_FORM(op, type, use, form, ulp)           \
  {#op,                                                          \
   !bf16_of(#type),                                              \
   std::string_view(#use) == "scaled",                           \
   [](const Model& a, const Model& b) { return (void)b, form; }, \
   reference::op,                                                \
   ulp},
#include "tileweave/jit/ir/short_forms.def"
};

struct Worst {
  double ulp = 0;
  float at = 0;
  std::string wrong;
};

template <class T>
double unit_at(double value) {
  using L = std::numeric_limits<T>;
  const double smallest = static_cast<double>(static_cast<float>(L::denorm_min()));
  if (value == 0) return smallest;
  return std::max(smallest, std::ldexp(1.0, std::ilogb(value) - (L::digits - 1)));
}

template <class T>
void check_one(const Row& row, float x, float y, Worst& worst) {
  const double exact = row.exact(x, y);
  const float form = row.form(Model{x}, Model{y}).value;
  const T rounded_exact(static_cast<float>(exact)), rounded(form);
  const auto note = [&] {
    if (!worst.wrong.empty()) return;
    char text[160];
    std::snprintf(text, sizeof text, "at %a, %a: %a, exactly %a", x, y, form, exact);
    worst.wrong = text;
  };
  if (std::isnan(exact) || std::isnan(form)) {
    if (std::isnan(exact) != std::isnan(form)) note();
    return;
  }
  const double largest = static_cast<double>(static_cast<float>(std::numeric_limits<T>::max()));
  if (std::fabs(exact) > largest || std::isinf(form)) {
    // At the end of the range what counts is the rounded result, or the last number before infinity.
    const float a = static_cast<float>(rounded), b = static_cast<float>(rounded_exact);
    const bool near = std::fabs(std::fabs(exact) - largest) < unit_at<T>(largest);
    if (a != b && !near) note();
    return;
  }
  if (exact == 0 && form == 0 && std::signbit(exact) != std::signbit(form)) note();
  // What is rounded next is judged by what comes out, everything else as it is.
  const double after = std::fabs(double{static_cast<float>(rounded)} - exact) / unit_at<T>(exact) - 0.5;
  const double ulp = row.is_scaled ? std::fabs(form - exact) / unit_at<T>(exact) : after;
  if (ulp > worst.ulp) worst = {ulp, x, worst.wrong};
}

template <class T>
std::vector<float> inputs(bool all_of_f32) {
  std::vector<float> out;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    out.push_back(static_cast<float>(T::from_bits(static_cast<std::uint16_t>(i))));
  }
  for (std::uint64_t i = 0; all_of_f32 && i <= 0xffffffff; i += 40009) {
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(i)));
  }
  return out;
}

template <class T>
bool check_row(const Row& row) {
  Worst worst;
  const std::vector<float> first = inputs<T>(true);
  std::vector<float> second{1.0f};
  if (two_operands(row.name)) {
    const float inf = std::numeric_limits<float>::infinity();
    second = {1.0f, 3.0f,     -7.0f,     0.1f,       0x1p-130f, 0x1.8p-149f, 0x1.7p127f,
              inf,  -0x1p63f, 0x1.3p65f, 0x1.9p-66f, 0.0f,      -0.0f,       std::nanf("")};
  }
  for (const double power : {-0x1p-22, 0.0, 0x1p-22}) {
    for (const double root : {-0x1p-23, 0.0, 0x1p-23}) {
      Model::power_error = power, Model::root_error = root;
      for (const float y : second) {
        for (const float x : first) check_one<T>(row, x, y, worst);
      }
    }
  }
  const bool good = worst.wrong.empty() && worst.ulp <= row.bound;
  std::printf("| %s | %s | %s | %.4f | %a | %.2f |%s%s\n", row.name, row.is_f16 ? "f16" : "bf16",
              row.is_scaled ? "scaled" : "rounded", worst.ulp, worst.at, row.bound, good ? "" : " WRONG ",
              worst.wrong.c_str());
  return good;
}

}  // namespace

int main() {
  std::printf("| function | type | use | error beside the rounding, ulp | at x | bound |\n|---|---|---|---|---|---|\n");
  bool good = true;
  for (const Row& row : rows) good = (row.is_f16 ? check_row<f16>(row) : check_row<bf16>(row)) && good;
  return good ? 0 : 1;
}
