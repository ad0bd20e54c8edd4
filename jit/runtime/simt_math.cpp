// Primitives of arithmetic: the approximate instructions, packed half arithmetic and conversions, on the host.
// An approximate instruction gives the correctly rounded result here: within the hardware's error, not its bits.
#include <bit>
#include <cmath>
#include <limits>

#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/runtime/simt_call.h"

namespace tileweave::runtime::simt {
namespace {

float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float rounded(double x) { return static_cast<float>(x); }

float ex2_approx(float x) { return rounded(std::exp2(static_cast<double>(x))); }
float ex2_approx_ftz(float x) { return flush(ex2_approx(flush(x))); }
float lg2_approx(float x) { return rounded(std::log2(static_cast<double>(x))); }
float rcp_approx_ftz(float x) { return flush(1.0f / flush(x)); }
float rsqrt_approx(float x) { return rounded(1.0 / std::sqrt(static_cast<double>(x))); }
float sqrt_approx(float x) { return std::sqrt(x); }
float div_approx(float x, float y) { return x / y; }
float tanh_approx(float x) { return rounded(std::tanh(static_cast<double>(x))); }
float sin_approx(float x) { return rounded(std::sin(static_cast<double>(x))); }
float cos_approx(float x) { return rounded(std::cos(static_cast<double>(x))); }

template <class H>
float half_of(std::uint32_t packed, int i) {
  return static_cast<float>(H::from_bits(static_cast<std::uint16_t>(packed >> (16 * i))));
}
template <class H>
std::uint32_t join(H low, H high) {
  return low.bits | static_cast<std::uint32_t>(high.bits) << 16;
}

template <class H, float (*f)(float)>
std::uint32_t packed_unary(std::uint32_t x) {
  return join(H(f(half_of<H>(x, 0))), H(f(half_of<H>(x, 1))));
}
// In double: a product or sum of two halves is exact there, so it is rounded once.
template <class H, double (*f)(double, double)>
std::uint32_t packed_binary(std::uint32_t x, std::uint32_t y) {
  return join(H(f(half_of<H>(x, 0), half_of<H>(y, 0))), H(f(half_of<H>(x, 1), half_of<H>(y, 1))));
}
double sum(double x, double y) { return x + y; }
double difference(double x, double y) { return x - y; }
double product(double x, double y) { return x * y; }
double lesser(double x, double y) { return x < y || (x == y && std::signbit(x)) ? x : y; }
double greater(double x, double y) { return x > y || (x == y && std::signbit(y)) ? x : y; }
double min_nan(double x, double y) { return std::isnan(x) ? x : std::isnan(y) ? y : lesser(x, y); }
double max_nan(double x, double y) { return std::isnan(x) ? x : std::isnan(y) ? y : greater(x, y); }
double min_number(double x, double y) { return std::isnan(x) ? y : std::isnan(y) ? x : lesser(x, y); }
double max_number(double x, double y) { return std::isnan(x) ? y : std::isnan(y) ? x : greater(x, y); }

// a * b is exact in double; the sum may not be (bf16's exponents span 500 bits), so it is rounded to odd, which leaves
// the one rounding that counts to the conversion.
double fma_to_odd(double a, double b, double c) {
  const double p = a * b, s = p + c;
  if (!std::isfinite(s) || !std::isfinite(p)) return s;
  const double back = s - p, error = (p - (s - back)) + (c - back);
  if (error == 0 || (std::bit_cast<std::uint64_t>(s) & 1) != 0) return s;
  return std::nextafter(s,
                        error > 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
}
template <class H>
std::uint32_t packed_fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return join(H(fma_to_odd(half_of<H>(a, 0), half_of<H>(b, 0), half_of<H>(c, 0))),
              H(fma_to_odd(half_of<H>(a, 1), half_of<H>(b, 1), half_of<H>(c, 1))));
}
template <class H>
std::uint32_t pack(float low, float high) {
  return join(H(low), H(high));
}
template <class E>
std::uint16_t pack_fp8(float low, float high) {
  const auto l = narrow<E>(low, Overflow::saturate), h = narrow<E>(high, Overflow::saturate);
  return static_cast<std::uint16_t>(l.bits | h.bits << 8);
}
template <class E>
std::uint32_t unpack_fp8(std::uint32_t packed) {
  const auto at = [&](int i) {
    return f16(static_cast<float>(E::from_bits(static_cast<std::uint8_t>(packed >> (8 * i)))));
  };
  return join(at(0), at(1));
}

// Ties away from zero: half of the last kept place is added to the magnitude, which may carry into the exponent.
float round_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000u) & ~0x1fffu);
}

std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t bytes = a | static_cast<std::uint64_t>(b) << 32;
  std::uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t s = selector >> (4 * i);
    std::uint32_t byte = (bytes >> (8 * (s & 7))) & 0xff;
    if ((s & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}

template <class Byte>
std::uint32_t dot4(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  for (int i = 0; i < 32; i += 8) {
    c += static_cast<std::uint32_t>(static_cast<Byte>(a >> i) * static_cast<Byte>(b >> i));
  }
  return c;
}

template <class H, float (*ex2)(float)>
void add_packed_rows(Rows& rows, const std::string& e) {
  const auto add = [&](const char* name, auto f) { rows.push_back(row((name + ("." + e)).c_str(), f)); };
  add("packed_ex2", packed_unary<H, ex2>);
  add("packed_tanh", packed_unary<H, tanh_approx>);
  add("packed_fma", packed_fma<H>);
  add("packed_add", packed_binary<H, sum>);
  add("packed_sub", packed_binary<H, difference>);
  add("packed_mul", packed_binary<H, product>);
  add("packed_min", packed_binary<H, min_nan>);
  add("packed_max", packed_binary<H, max_nan>);
  add("packed_fmin", packed_binary<H, min_number>);
  add("packed_fmax", packed_binary<H, max_number>);
  add("pack", pack<H>);
}

}  // namespace

void add_math_rows(Rows& rows) {
  const Row all[] = {row("ex2_approx", ex2_approx),
                     row("ex2_approx_ftz", ex2_approx_ftz),
                     row("lg2_approx", lg2_approx),
                     row("rcp_approx_ftz", rcp_approx_ftz),
                     row("rsqrt_approx", rsqrt_approx),
                     row("sqrt_approx", sqrt_approx),
                     row("div_approx", div_approx),
                     row("tanh_approx", tanh_approx),
                     row("sin_approx", sin_approx),
                     row("cos_approx", cos_approx),
                     row("round_tf32", round_tf32),
                     row("permute_bytes", permute_bytes),
                     row("dot4.i32", dot4<std::int8_t>),
                     row("dot4.u32", dot4<std::uint8_t>),
                     row("pack_fp8.e4m3", pack_fp8<f8e4m3>),
                     row("pack_fp8.e5m2", pack_fp8<f8e5m2>),
                     row("unpack_fp8.e4m3", unpack_fp8<f8e4m3>),
                     row("unpack_fp8.e5m2", unpack_fp8<f8e5m2>)};
  rows.insert(rows.end(), std::begin(all), std::end(all));
  add_packed_rows<f16, ex2_approx>(rows, "f16x2");
  add_packed_rows<bf16, ex2_approx_ftz>(rows, "bf16x2");
}

}  // namespace tileweave::runtime::simt
