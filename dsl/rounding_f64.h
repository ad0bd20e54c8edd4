// How the exact result of an f64 operation lies to its nearest f64, for the rounding modes of rounding.h.
// Nothing wider is at hand: what the rounded result lost is computed from sums and products that are exact (Knuth,
// TAOCP vol. 2, 4.2.2; Dekker, Numer. Math. 18, 1971, with an fma), after moving exponents away from the ends of the
// range.
#pragma once

#include "tileweave/dsl/shape.h"

namespace tileweave::detail {

template <int R>
using Wide = Tile<double, R>;
template <int R>
using Flags = Tile<bool, R>;

// The sum of two doubles and what it lost: exact (Knuth, "The Art of Computer Programming", vol. 2, 4.2.2).
template <int R>
struct TwoSum {
  Wide<R> sum, lost;
  TwoSum(const Wide<R>& a, const Wide<R>& b, const Place& p) : sum(a + b, p), lost(zero(a, b, p)) {}

 private:
  Wide<R> zero(const Wide<R>& a, const Wide<R>& b, const Place& p) const {
    const Wide<R> from_b(sum - a, p);
    return Wide<R>((a - (sum - from_b)) + (b - from_b), p);
  }
};

inline constexpr double up = 0x1p550, down = 0x1p-550;

template <int R>
Flags<R> is_infinite(const Wide<R>& x, const Place& p) {
  return Flags<R>(abs(x) > highest<double>, p);
}
template <int R>
Flags<R> is_number(const Wide<R>& x, const Place& p) {
  return Flags<R>(abs(x) <= highest<double>, p);
}

// Where finite operands gave an infinite result, the exact one is less in magnitude; elsewhere the rest says where it
// lies. NaN, and what is exact, is on neither side.
template <int R>
struct Side {
  Flags<R> low, high;
  Side(const Wide<R>& y, const Wide<R>& rest, const Flags<R>& finite, const Place& p)
      : low(finite & ((rest < 0.0) | (is_infinite(y, p) & (y > 0.0))), p),
        high(finite & ((rest > 0.0) | (is_infinite(y, p) & (y < 0.0))), p) {}
};

// x * y - product: its sign is right for every finite operand. A product below 2^-900 may have lost bits that no double
// holds; there both factors are moved up, which is exact.
template <int R>
Wide<R> rest_of_product(const Wide<R>& x, const Wide<R>& y, const Wide<R>& product, const Place& p) {
  const Flags<R> tiny(abs(product) < 0x1p-900, p);
  const Wide<R> whole(fma(x, y, -product), p);
  const Wide<R> moved(fma(Wide<R>(x * up, p), Wide<R>(y * up, p), -Wide<R>(Wide<R>(product * up, p) * up, p)), p);
  return Wide<R>(where(tiny, moved, whole), p);
}

// x - quotient * y, of the sign of (x / y - quotient) * y. Both move up where the product could be below the range and
// neither then leaves it: with y above 2^523 the quotient has so few bits that nothing is lost.
template <int R>
Wide<R> rest_of_quotient(const Wide<R>& x, const Wide<R>& y, const Wide<R>& quotient, const Place& p) {
  const Flags<R> tiny((abs(x) < 0x1p-500) & (abs(y) < 0x1p523), p);
  const Wide<R> xs(where(tiny, x * 0x1p500, x), p), ys(where(tiny, y * 0x1p500, y), p);
  return Wide<R>(fma(-quotient, ys, xs), p);
}

template <int R>
Wide<R> rest_of_root(const Wide<R>& x, const Wide<R>& root, const Place& p) {
  const Flags<R> tiny(x < 0x1p-500, p);
  const Wide<R> xs(where(tiny, x * 0x1p600, x), p), rs(where(tiny, root * 0x1p300, root), p);
  return Wide<R>(fma(-rs, rs, xs), p);
}

// x * y + z - nearest. The three are moved together until the product is in the middle of the range; a z (or product)
// that is then out of it is so small beside the other that its sign alone counts.
template <int R>
Wide<R> rest_of_fma(const Wide<R>& x, const Wide<R>& y, const Wide<R>& z, const Wide<R>& nearest, const Place& p) {
  const Wide<R> product(fma(x, y, -0.0), p);
  const Flags<R> big(abs(product) > 0x1p900, p), tiny((abs(product) < 0x1p-900) & (x != 0.0) & (y != 0.0), p);
  const auto moved = [&](const Wide<R>& v) { return Wide<R>(where(tiny, v * up, where(big, v * down, v)), p); };
  const Wide<R> xs = moved(x), ys = moved(y);
  const Flags<R> small_z(big & (abs(z) < 0x1p200), p), alone(tiny & (abs(z) >= 0x1p-700), p);
  const Wide<R> sign(where(z > 0.0, 0x1p-1000, where(z < 0.0, -0x1p-1000, 0.0 * z)), p);
  const Wide<R> zs(where(alone, 0.0, where(small_z, sign, moved(moved(z)))), p);
  const Wide<R> ns(where(alone, 0.0, moved(moved(nearest))), p);
  const Wide<R> high(fma(xs, ys, -0.0), p), low(fma(xs, ys, -high), p);
  const TwoSum<R> sum(high, zs, p);
  const TwoSum<R> lost(sum.lost, low, p);
  const TwoSum<R> rest(Wide<R>(sum.sum - ns, p), lost.sum, p);
  return Wide<R>(rest.sum + Wide<R>(rest.lost + lost.lost, p), p);
}

}  // namespace tileweave::detail
