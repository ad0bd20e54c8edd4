// Measures the error of every f32 math function over all 2^32 inputs (or a sample, by default) against double
// precision. Stands on jit/base/meaning; its results are in docs/accuracy.md. Exits with 1 where an error exceeds its
// stated bound.
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/meaning/functions.h"

namespace {
namespace meaning = tileweave::meaning;

constexpr int block = 1024;

// --- References in double precision: errors of at most a few units in the last place of a double, 2^-27 of an f32's.

double ref_rsqrt(double x) { return 1.0 / std::sqrt(x); }
double ref_exp10(double x) { return ::exp10(x); }
double ref_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
// x * sigmoid(y), where y decides how fast the product falls to zero at -infinity.
double gated(double x, double y) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  return x / (1.0 + std::exp(-y));
}
double ref_silu(double x) { return gated(x, x); }
double ref_mish(double x) {
  const double w = std::exp(std::fmin(x, 20.0)), n = w * (w + 2);
  return x < -700 ? -0.0 : x * (n / (n + 2));
}
double ref_softplus(double x) { return std::isnan(x) ? x : std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double ref_gelu(double x) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
}
double ref_gelu_derivative(double x) {
  const double a = std::fmin(std::fabs(x), 50.0);
  const double g = 0.5 * std::erfc(a * 0.70710678118654752440) - a * 0.39894228040143267794 * std::exp(-0.5 * a * a);
  return std::isnan(x) ? x : x < 0 ? g : 1 - g;
}
double ref_gelu_tanh(double x) { return gated(x, 1.5957691216057307117598 * x * (1.0 + 0.044715 * x * x)); }
double ref_gelu_sigmoid(double x) { return gated(x, 1.702 * x); }
double ref_relu(double x) { return std::isnan(x) ? x : (x > 0 ? x : 0.0); }

struct Function {
  const char* name;
  void (*ours)(const float* x, float* y);  // one block
  double (*reference)(double);
  double bound;  // the largest error allowed, in ulp
};

template <float (*f)(const float&)>
void apply(const float* x, float* y) {
  for (int i = 0; i < block; ++i) y[i] = f(x[i]);
}

#define ROW(name, reference, bound) {#name, apply<meaning::name<float>>, reference, bound}
const Function functions[] = {
    // clang-format off
    ROW(exp, std::exp, 0.9),
    ROW(exp2, std::exp2, 0.9),
    ROW(exp10, ref_exp10, 1.1),
    ROW(expm1, std::expm1, 1.2),
    ROW(log, std::log, 0.9),
    ROW(log2, std::log2, 1.3),
    ROW(log10, std::log10, 0.9),
    ROW(log1p, std::log1p, 1.0),
    ROW(erf, std::erf, 1.3),
    ROW(erfc, std::erfc, 2.3),
    ROW(tanh, std::tanh, 1.4),
    ROW(sinh, std::sinh, 1.7),
    ROW(cosh, std::cosh, 1.4),
    ROW(sigmoid, ref_sigmoid, 1.8),
    ROW(silu, ref_silu, 1.8),
    ROW(softplus, ref_softplus, 2.2),
    ROW(mish, ref_mish, 4.6),
    ROW(gelu, ref_gelu, 2.5),
    ROW(gelu_derivative, ref_gelu_derivative, 4.0),
    ROW(gelu_tanh, ref_gelu_tanh, 2.0),
    ROW(gelu_sigmoid, ref_gelu_sigmoid, 2.0),
    ROW(cbrt, std::cbrt, 0.6),
    ROW(sin, std::sin, 1.2),
    ROW(cos, std::cos, 1.2),
    ROW(tan, std::tan, 1.8),
    ROW(atan, std::atan, 1.4),
    ROW(asin, std::asin, 1.6),
    ROW(acos, std::acos, 1.0),
    ROW(rsqrt, ref_rsqrt, 1.5),
    ROW(relu, ref_relu, 0.0),
    // clang-format on
};
#undef ROW

// --- The error of one result.

double ulp_of(double reference) {
  const int exponent = reference == 0 ? -126 : std::max(std::ilogb(reference), -126);
  return std::ldexp(1.0, std::min(exponent, 127) - 23);
}

double error_in_ulp(float x, float got, double reference) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(reference)) return std::isnan(got) ? 0 : wrong;
  if (std::isnan(got)) return wrong;
  const float rounded = static_cast<float>(reference);
  if (std::isinf(got)) return rounded == got ? 0 : wrong;
  if (std::isinf(reference)) return wrong;
  if (x == 0 && reference == 0 && std::signbit(got) != std::signbit(reference)) return wrong;
  return std::fabs(static_cast<double>(got) - reference) / ulp_of(reference);
}

struct Worst {
  double error = -1;
  float x = 0, got = 0;
  double reference = 0;
  void take(const Worst& o) {
    if (o.error > error) *this = o;
  }
};

Worst measure_block(const Function& f, const float* x) {
  float y[block];
  f.ours(x, y);
  Worst worst;
  for (int i = 0; i < block; ++i) {
    const double reference = f.reference(static_cast<double>(x[i]));
    const double e = error_in_ulp(x[i], y[i], reference);
    if (e > worst.error) worst = {e, x[i], y[i], reference};
  }
  return worst;
}

// --- The inputs. Block number b of `blocks`; the sample takes every stride-th bit pattern, from an odd stride so that
// all low bits occur, and the neighbourhoods of all powers of two and of points where some function changes its form.

struct Inputs {
  std::uint64_t blocks = (std::uint64_t{1} << 32) / block;
  std::uint64_t stride = 1;
  std::vector<float> extra;  // whole blocks
};

Inputs all_inputs() { return {}; }

Inputs sampled_inputs() {
  Inputs in;
  in.stride = 16381;
  in.blocks = (std::uint64_t{1} << 32) / in.stride / block;
  std::vector<std::uint32_t> centres = {0x7fffffffu};
  for (std::uint32_t e = 0; e < 256; ++e) centres.push_back(e << 23);
  for (const float c : {0.55f,  0.6f,   0.66666667f, 0.70710678f, 1.41421356f, 1.5f,   3.0f,       3.92f,     9.0f,
                        10.0f,  13.2f,  14.3f,       17.0f,       20.0f,       25.0f,  38.53f,     44.85f,    45.5f,
                        87.33f, 88.72f, 89.4f,       103.97f,     127.0f,      149.5f, 1.5707964f, 3.1415927f}) {
    centres.push_back(std::bit_cast<std::uint32_t>(c));
  }
  for (const std::uint32_t c : centres) {
    for (std::uint32_t d = 0; d < 64; ++d) {
      for (const std::uint32_t bits : {c + d, c - d}) {
        in.extra.push_back(std::bit_cast<float>(bits));
        in.extra.push_back(std::bit_cast<float>(bits ^ 0x80000000u));
      }
    }
  }
  in.extra.resize((in.extra.size() + block - 1) / block * block, 1.0f);
  return in;
}

Worst measure(const Function& f, const Inputs& in, unsigned threads) {
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  Worst worst;
  const auto work = [&] {
    Worst mine;
    float x[block];
    for (std::uint64_t b; (b = next.fetch_add(1)) < in.blocks;) {
      for (int i = 0; i < block; ++i) {
        x[i] = std::bit_cast<float>(static_cast<std::uint32_t>((b * block + static_cast<unsigned>(i)) * in.stride));
      }
      mine.take(measure_block(f, x));
    }
    const std::lock_guard lock(mutex);
    worst.take(mine);
  };
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
  for (std::size_t i = 0; i < in.extra.size(); i += block) worst.take(measure_block(f, &in.extra[i]));
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  bool all = tileweave::env().long_tests;
  std::vector<std::string> only;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--all") == 0) {
      all = true;
    } else if (argv[i][0] != '-') {
      only.push_back(argv[i]);
    } else {
      std::fprintf(stderr,
                   "usage: exhaustive_f32 [--all] [function ...]\n  --all: every f32 input, not a sample (also "
                   "TILEWEAVE_LONG=1)\n");
      return 2;
    }
  }
  const Inputs in = all ? all_inputs() : sampled_inputs();
  std::printf("f32, %s\n%-14s %10s %7s   %-16s %-16s %s\n", all ? "all inputs" : "a sample of the inputs", "function",
              "max ulp", "bound", "at x", "result", "exact");
  bool ok = true;
  for (const Function& f : functions) {
    bool wanted = only.empty();
    for (const std::string& name : only) wanted = wanted || name == f.name;
    if (!wanted) continue;
    const Worst w = measure(f, in, std::max(1u, std::thread::hardware_concurrency()));
    const bool good = w.error <= f.bound;
    ok = ok && good;
    std::printf("%-14s %10.4f %7.2f   %-16a %-16a %a%s\n", f.name, w.error, f.bound, static_cast<double>(w.x),
                static_cast<double>(w.got), w.reference, good ? "" : "   ABOVE ITS BOUND");
    std::fflush(stdout);
  }
  return ok ? 0 : 1;
}
