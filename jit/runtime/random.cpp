// Random tensors by Philox4x32-10: counter based, so that every element is a function of its index and the seed.
// Made on the host on all cores, in double, rounded once; then copied to the device.
#include "tileweave/jit/runtime/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/cpu_pool.h"
#include "tileweave/jit/runtime/tensor_math.h"

namespace tileweave::runtime {
namespace {

constexpr std::int64_t chunk = 4096;  // elements of one program; a multiple of the 4 numbers of a block

struct Filling {
  std::byte* base;
  std::int64_t size;
  Dtype dtype;
  std::array<std::uint32_t, 2> key;
  double lo, hi;
  std::int64_t int_lo;
  std::uint64_t int_width;  // 0: 2^64
};

std::array<std::uint32_t, 4> block_of(const Filling& f, std::int64_t block) {
  const auto b = static_cast<std::uint64_t>(block);
  return philox4x32_10({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32), 0, 0}, f.key);
}

// 2^-32 (n + 1/2): in (0, 1), symmetric.
double unit(std::uint32_t n) { return (static_cast<double>(n) + 0.5) * 0x1p-32; }

// Two independent standard normal numbers (Box and Muller, 1958).
void normal_pair(std::uint32_t a, std::uint32_t b, double out[2]) {
  const double radius = std::sqrt(-2.0 * std::log(unit(a))), angle = 2.0 * std::numbers::pi * unit(b);
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

template <class T>
void put(const Filling& f, std::int64_t i, T value) {
  std::memcpy(f.base + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}

template <class T>
void fill_normal(const Filling& f, std::int64_t begin, std::int64_t end) {
  if constexpr (!std::is_integral_v<T>) {
    for (std::int64_t i = begin; i < end; i += 4) {
      const auto n = block_of(f, i / 4);
      double values[4];
      normal_pair(n[0], n[1], values);
      normal_pair(n[2], n[3], values + 2);
      for (std::int64_t k = 0; k < 4 && i + k < end; ++k) put(f, i + k, static_cast<T>(values[k]));
    }
  }
}

template <class T>
void fill_uniform(const Filling& f, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 4) {
    const auto n = block_of(f, i / 4);
    for (std::int64_t k = 0; k < 4 && i + k < end; ++k) {
      if constexpr (std::is_same_v<T, bool>) {
        put(f, i + k, (n[k] >> 31) != 0);
      } else if constexpr (std::is_integral_v<T>) {
        // The upper half of a 64-bit product with the width; wider ranges take a second number.
        const std::uint64_t wide = static_cast<std::uint64_t>(n[k]) << 32 | n[(k + 1) % 4];
        __extension__ typedef unsigned __int128 Wide;
        const std::uint64_t offset =
            f.int_width == 0 ? wide : static_cast<std::uint64_t>(static_cast<Wide>(wide) * f.int_width >> 64);
        put(f, i + k, static_cast<T>(static_cast<std::uint64_t>(f.int_lo) + offset));
      } else {
        put(f, i + k, static_cast<T>(f.lo + (f.hi - f.lo) * (static_cast<double>(n[k]) * 0x1p-32)));
      }
    }
  }
}

template <bool is_normal>
void fill_entry(const std::uint64_t* slots, const std::int64_t*, std::int64_t begin, std::int64_t end, void*, void*) {
  const auto& f = *reinterpret_cast<const Filling*>(slots[0]);
  const std::int64_t first = begin * chunk, last = std::min(f.size, end * chunk);
  visit_dtype(f.dtype, [&]<class T>(std::type_identity<T>) {
    is_normal ? fill_normal<T>(f, first, last) : fill_uniform<T>(f, first, last);
  });
}

template <bool is_normal>
AnyTensor filled(const Device& device, Dtype dtype, const Dims& extents, std::uint64_t seed, Filling f,
                 const Place& place) {
  const Device home = device.is_host() ? device : Device::cpu();
  AnyTensor t = AnyTensor::empty(home, dtype, extents, Memory::device, place);
  f.base = static_cast<std::byte*>(t.data());
  f.size = t.size();
  f.dtype = dtype;
  f.key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const std::uint64_t slot = reinterpret_cast<std::uintptr_t>(&f);
  const std::int64_t grid[3] = {(t.size() + chunk - 1) / chunk, 1, 1};
  run_on_all_cores({fill_entry<is_normal>, &slot, grid, 0, nullptr}, grid[0]);
  return device.is_host() ? t : t.to(device, place);
}

// The bounds of an integer range as integers, kept inside the type.
template <class T>
void set_integer_range(Filling& f, const Place& place) {
  const double least = static_cast<double>(std::numeric_limits<T>::min());
  const double most = std::ldexp(1.0, std::numeric_limits<T>::digits);  // one past the largest
  if (!(std::ceil(f.lo) < f.hi) || f.lo < least || f.hi > most) {
    throw_launch_error(place, "random_uniform: [" + std::to_string(f.lo) + ", " + std::to_string(f.hi) +
                                  ") is no range of " + std::string(dtype_name(dtype_of<T>)));
  }
  const auto to_bits = [](double v) {
    return v < 0 ? 0 - static_cast<std::uint64_t>(-v) : v < 0x1p64 ? static_cast<std::uint64_t>(v) : 0;
  };
  f.int_lo = static_cast<std::int64_t>(to_bits(std::ceil(f.lo)));
  f.int_width = to_bits(std::ceil(f.hi)) - static_cast<std::uint64_t>(f.int_lo);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  constexpr std::uint64_t m0 = 0xD2511F53, m1 = 0xCD9E8D57;  // multipliers of the paper
  constexpr std::uint32_t w0 = 0x9E3779B9, w1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = m0 * c[0], p1 = m1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += w0;
    k[1] += w1;
  }
  return c;
}

AnyTensor random_normal(const Device& device, Dtype dtype, const Dims& extents, std::uint64_t seed,
                        const Place& place) {
  if (!is_float(dtype)) {
    throw_launch_error(place, "random_normal: " + std::string(dtype_name(dtype)) + " is no float type",
                       "use random_uniform for integers");
  }
  return filled<true>(device, dtype, extents, seed, {}, place);
}

AnyTensor random_uniform(const Device& device, Dtype dtype, const Dims& extents, std::uint64_t seed, double lo,
                         double hi, const Place& place) {
  Filling f{};
  f.lo = lo;
  f.hi = hi;
  if (is_int(dtype)) {
    visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) set_integer_range<T>(f, place);
    });
  } else if (is_float(dtype) && !(lo <= hi && std::isfinite(hi - lo))) {
    throw_launch_error(place, "random_uniform: [" + std::to_string(lo) + ", " + std::to_string(hi) + ") is no range");
  }
  return filled<false>(device, dtype, extents, seed, f, place);
}

}  // namespace tileweave::runtime
