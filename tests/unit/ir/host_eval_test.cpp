// ir::host: what every element-wise op and conversion means, at the values people got wrong.
// Stands beside jit/ir/host_eval.cpp; the numbers are those of the cases from the field.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tileweave/jit/ir/host_eval.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

std::uint64_t eval(OpId id, Dtype t, std::initializer_list<std::uint64_t> v) {
  return host::eval_elementwise(id, t, std::span(v.begin(), v.size()));
}
std::int64_t ints(OpId id, Dtype t, std::int64_t a, std::int64_t b = 0) {
  return host::to_int64(eval(id, t, {host::from_int(a, t), host::from_int(b, t)}), t);
}
double floats(OpId id, Dtype t, double a, double b = 0, double c = 0) {
  return host::to_double(eval(id, t, {host::from_double(a, t), host::from_double(b, t), host::from_double(c, t)}), t);
}
std::int64_t to_int(double v, Dtype to) {
  return host::to_int64(host::convert_bits(host::from_double(v, Dtype::f32), Dtype::f32, to), to);
}

constexpr double infinite = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

}  // namespace

TEST_CASE("integer division truncates, and nothing traps (cases 1 and 2)") {
  for (const Dtype t : {Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64}) {
    CHECK(ints(OpId::div, t, -7, 2) == -3);
    CHECK(ints(OpId::rem, t, -7, 2) == -1);
    CHECK(ints(OpId::div, t, -7, -2) == 3);
    CHECK(ints(OpId::rem, t, -7, -2) == -1);
    CHECK(ints(OpId::div, t, -7, 3) == -2);
    CHECK(ints(OpId::div, t, 7, -2) == -3);
    CHECK(ints(OpId::rem, t, 7, -2) == 1);
    CHECK(ints(OpId::floor_div, t, -7, 2) == -4);
    CHECK(ints(OpId::floor_mod, t, -7, 2) == 1);
    CHECK(ints(OpId::floor_mod, t, 7, -2) == -1);
    CHECK(ints(OpId::cdiv, t, -36, 5) == -7);
    CHECK(ints(OpId::cdiv, t, 36, 5) == 8);
    CHECK(ints(OpId::cdiv, t, -36, -5) == 8);
    CHECK(ints(OpId::div, t, 5, 0) == 0);
    CHECK(ints(OpId::rem, t, 5, 0) == 5);
    CHECK(ints(OpId::floor_div, t, -5, 0) == 0);
    CHECK(ints(OpId::floor_mod, t, -5, 0) == -5);
    CHECK(ints(OpId::cdiv, t, 5, 0) == 0);
    const std::int64_t smallest = host::to_int64(host::from_double(-infinite, t), t);
    CHECK(ints(OpId::div, t, smallest, -1) == smallest);
    CHECK(ints(OpId::rem, t, smallest, -1) == 0);
    CHECK(ints(OpId::floor_div, t, smallest, -1) == smallest);
    CHECK(ints(OpId::neg, t, smallest) == smallest);
    CHECK(ints(OpId::abs, t, smallest) == smallest);
  }
  CHECK(ints(OpId::cdiv, Dtype::i32, 2147483647, 1024) == 2097152);
  CHECK(ints(OpId::cdiv, Dtype::i32, 0, 128) == 0);
  CHECK(ints(OpId::cdiv, Dtype::i32, 1, 128) == 1);
  CHECK(ints(OpId::cdiv, Dtype::u8, 255, 2) == 128);
}

TEST_CASE("integers wrap; shifts past the width give 0 or -1") {
  CHECK(ints(OpId::add, Dtype::i8, 127, 1) == -128);
  CHECK(ints(OpId::mul, Dtype::u16, 65535, 65535) == 1);
  CHECK(ints(OpId::mul, Dtype::i32, 65536, 65536) == 0);
  CHECK(ints(OpId::mul_hi, Dtype::u32, 0xffffffff, 0xffffffff) == 0xfffffffe);
  CHECK(ints(OpId::mul_hi, Dtype::i64, INT64_MIN, INT64_MIN) == std::int64_t{1} << 62);
  CHECK(ints(OpId::shl, Dtype::i32, 1, 31) == INT32_MIN);
  CHECK(ints(OpId::shl, Dtype::i32, 1, 32) == 0);
  CHECK(ints(OpId::shl, Dtype::i8, 1, -1) == 0);
  CHECK(ints(OpId::shr, Dtype::i8, -100, 8) == -1);
  CHECK(ints(OpId::shr, Dtype::i8, 100, 200) == 0);
  CHECK(ints(OpId::shr, Dtype::u8, 200, 3) == 25);
  CHECK(ints(OpId::clz, Dtype::i16, 0) == 16);
  CHECK(ints(OpId::clz, Dtype::u8, 1) == 7);
  CHECK(ints(OpId::popcount, Dtype::i64, -1) == 64);
  CHECK(eval(OpId::bit_not, Dtype::boolean, {1}) == 0);
}

TEST_CASE("minimum and maximum take NaN, fmin and fmax drop it, zeros are ordered") {
  for (const Dtype t : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8e4m3, Dtype::f8e5m2}) {
    CHECK(std::isnan(floats(OpId::maximum, t, not_a_number, 1)));
    CHECK(std::isnan(floats(OpId::minimum, t, 1, not_a_number)));
    CHECK(floats(OpId::fmax, t, not_a_number, 1) == 1);
    CHECK(floats(OpId::fmin, t, 1, not_a_number) == 1);
    CHECK(std::signbit(floats(OpId::minimum, t, 0.0, -0.0)));
    CHECK_FALSE(std::signbit(floats(OpId::maximum, t, -0.0, 0.0)));
    CHECK(std::signbit(floats(OpId::fmin, t, 0.0, -0.0)));
  }
}

TEST_CASE("narrow floats round once, from f32") {
  CHECK(floats(OpId::add, Dtype::f16, 2048, 1) == 2048);  // ties to even
  CHECK(floats(OpId::add, Dtype::f16, 2048, 3) == 2052);
  CHECK(std::isinf(floats(OpId::add, Dtype::f16, 65504, 65504)));
  CHECK(floats(OpId::add, Dtype::f8e4m3, 448, 448) == 448);
  CHECK(floats(OpId::mul, Dtype::f16, 1.0 + 0x1p-10, 1.0 + 0x1p-10) == 1.0 + 0x1p-9);
  CHECK(floats(OpId::fma, Dtype::f16, 1.0 + 0x1p-10, 1.0 + 0x1p-10, -1.0 - 0x1p-9) == 0x1p-20);
  CHECK(floats(OpId::div, Dtype::f32, 4.6875, 0.9375) == 5.0);
}

TEST_CASE("a selection keeps bits, an f8e5m2 infinity included") {
  CHECK(eval(OpId::where, Dtype::f8e5m2, {1, 0x7c, 0}) == 0x7c);
  CHECK(eval(OpId::where, Dtype::f32, {0, 0, 0x7fc12345}) == 0x7fc12345);
}

TEST_CASE("floats to integers truncate and saturate, NaN gives 0 (case 22)") {
  CHECK(to_int(510, Dtype::i8) == 127);
  CHECK(to_int(-1e9, Dtype::i8) == -128);
  CHECK(to_int(infinite, Dtype::i8) == 127);
  CHECK(to_int(not_a_number, Dtype::i8) == 0);
  CHECK(to_int(-0.9, Dtype::i8) == 0);
  CHECK(to_int(-1, Dtype::u32) == 0);
  CHECK(to_int(4.3e9, Dtype::u32) == 4294967295);
  CHECK(to_int(2147483648.0, Dtype::i32) == 2147483647);
  CHECK(to_int(-2147483648.0, Dtype::i32) == INT32_MIN);
  CHECK(to_int(9.3e18, Dtype::i64) == INT64_MAX);
  CHECK(host::convert_bits(host::from_double(1.9e19, Dtype::f32), Dtype::f32, Dtype::u64) == UINT64_MAX);
  CHECK(to_int(not_a_number, Dtype::boolean) == 1);  // x != 0
  CHECK(to_int(-0.0, Dtype::boolean) == 0);
}

TEST_CASE("integers to floats and to each other") {
  const auto f32_of = [](std::int64_t v, Dtype from) {
    return host::to_double(host::convert_bits(host::from_int(v, from), from, Dtype::f32), Dtype::f32);
  };
  CHECK(f32_of(16777217, Dtype::i32) == 16777216);
  CHECK(f32_of(16777219, Dtype::i32) == 16777220);
  CHECK(f32_of(4294967295, Dtype::u32) == 4294967296.0);
  CHECK(f32_of(-1, Dtype::u64) == 0x1p64);
  // One rounding: through f32 this would be 1 + 2^-7 (bf16), rounded twice.
  const std::int64_t twice = (std::int64_t{1} << 32) + (std::int64_t{1} << 24) + 1;
  CHECK(host::to_double(host::convert_bits(static_cast<std::uint64_t>(twice), Dtype::i64, Dtype::bf16), Dtype::bf16) ==
        0x1p32 + 0x1p25);
  CHECK(host::convert_bits(300, Dtype::i32, Dtype::u8) == 44);
  CHECK(host::convert_bits(300, Dtype::i32, Dtype::u8, true) == 255);
  CHECK(host::convert_bits(host::from_int(-5, Dtype::i8), Dtype::i8, Dtype::u32, true) == 0);
  CHECK(host::to_int64(host::convert_bits(host::from_int(-5, Dtype::i8), Dtype::i8, Dtype::i64), Dtype::i64) == -5);
  CHECK(host::convert_bits(UINT64_MAX, Dtype::u64, Dtype::i32, true) == 0x7fffffff);
}

TEST_CASE("every row has a meaning at exactly the types it names") {
  for (int i = 0; i < elementwise_op_count; ++i) {
    const OpInfo& info = op_info(static_cast<OpId>(i));
    for (int d = 0; d < dtype_count; ++d) {
      const auto t = static_cast<Dtype>(d);
      bool takes = true;
      if (info.types == OpTypes::Num) takes = !is_bool(t);
      if (info.types == OpTypes::Float || info.types == OpTypes::Test) takes = is_float(t);
      if (info.types == OpTypes::Int) takes = is_int(t);
      if (info.types == OpTypes::Bits) takes = is_int(t) || is_bool(t);
      CHECK((host::lane_function(static_cast<OpId>(i), t) != nullptr) == takes);
    }
  }
}
