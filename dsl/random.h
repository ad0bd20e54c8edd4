// Random numbers in kernels: the counter-based generator Philox4x32-10, so that a number depends on its seed and its
// place alone, whatever runs it. Over math.h: plain integer ops, bit-equal on every device.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, section 3.
#pragma once

#include <array>

#include "tileweave/dsl/math.h"

namespace tileweave {

template <int R>
using RandomBits = Tile<std::uint32_t, R>;

// Four independent words of 32 random bits for each lane's 128-bit counter (c0 the lowest word) and the 64-bit key.
// Cost: 20 wide multiplications and about 60 other integer operations for the four.
template <int R>
std::array<RandomBits<R>, 4> philox4x32(std::array<RandomBits<R>, 4> counter, Scalar<std::uint32_t> key0,
                                        Scalar<std::uint32_t> key1, const Place& p = std::source_location::current()) {
  constexpr std::uint32_t m0 = 0xD2511F53u, m1 = 0xCD9E8D57u, w0 = 0x9E3779B9u, w1 = 0xBB67AE85u;
  using Word = RandomBits<R>;
  using Key = Scalar<std::uint32_t>;
  std::array<record::Raw, 4> c = {counter[0].raw(), counter[1].raw(), counter[2].raw(), counter[3].raw()};
  const auto word = [&](const auto& e) { return record_as(e, Dtype::u32, p); };
  record::Raw k0 = key0.raw(), k1 = key1.raw();
  for (int round = 0; round < 10; ++round) {
    // Braces: recorded from left to right.
    c = {word(mul_hi(Word(c[2]), m1) ^ Word(c[1]) ^ Key(k0)), word(Word(c[2]) * m1),
         word(mul_hi(Word(c[0]), m0) ^ Word(c[3]) ^ Key(k1)), word(Word(c[0]) * m0)};
    k0 = word(Key(k0) + w0);
    k1 = word(Key(k1) + w1);
  }
  return {Word(c[0]), Word(c[1]), Word(c[2]), Word(c[3])};
}

namespace detail {

// The key is the seed's 64 bits; the counter's low 64 bits are the lane's offset.
template <class S, class E>
auto random_words(const S& seed, const E& offsets, const Place& p) {
  constexpr int R = rank_v<E>;
  const Scalar<std::uint64_t> key(record::convert(record_as(seed, own_dtype<node_t<S>>, p), Dtype::u64, false, p));
  const Tile<std::uint64_t, R> at(record::convert(record_as(offsets, dtype_of<elem_t<E>>, p), Dtype::u64, false, p));
  const auto low = [&](const auto& x) { return x.template to<std::uint32_t>(); };
  const RandomBits<R> zero(record_as(low(at) & 0u, Dtype::u32, p));
  return philox4x32<R>({RandomBits<R>(low(at)), RandomBits<R>(low(at >> 32u)), zero, zero},
                       Scalar<std::uint32_t>(low(key)), Scalar<std::uint32_t>(low(key >> 32u)), p);
}

// The upper 24 bits as a fraction: every value k / 2^24 in [0, 1), exactly.
template <int R>
Tile<float, R> to_uniform(const RandomBits<R>& bits) {
  return (bits >> 8u).template to<float>() * 0x1p-24f;
}

// Box and Muller's transform ("A note on the generation of random normal deviates", 1958). The logarithm's argument
// is in (0, 1].
template <int R>
std::array<Tile<float, R>, 2> to_normal(const RandomBits<R>& a, const RandomBits<R>& b) {
  const Tile<float, R> radius = sqrt(-2.0f * log(((a >> 8u) + 1u).template to<float>() * 0x1p-24f));
  const Tile<float, R> angle = to_uniform(b) * 6.28318530717958647692f;
  return {Tile<float, R>(radius * cos(angle)), Tile<float, R>(radius * sin(angle))};
}

}  // namespace detail

// A seed: an integer of C++ or a scalar of the kernel.
template <class S>
concept RandomSeed = Operand<S> && rank_v<S> <= 0 && IntElem<elem_t<S>>;
template <class E>
concept RandomOffsets = Node<E> && IntElem<elem_t<E>> && rank_v<E> >= 0;

// 32 random bits a lane, and four times that. Lanes with the same seed and offset get the same bits.
template <RandomSeed S, RandomOffsets E>
RandomBits<rank_v<E>> random_bits(const S& seed, const E& offsets, const Place& p = std::source_location::current()) {
  return detail::random_words(seed, offsets, p)[0];
}
template <RandomSeed S, RandomOffsets E>
std::array<RandomBits<rank_v<E>>, 4> random_bits4(const S& seed, const E& offsets,
                                                  const Place& p = std::source_location::current()) {
  return detail::random_words(seed, offsets, p);
}

// Uniform in [0, 1): k / 2^24.
template <RandomSeed S, RandomOffsets E>
Tile<float, rank_v<E>> rand(const S& seed, const E& offsets, const Place& p = std::source_location::current()) {
  return detail::to_uniform<rank_v<E>>(random_bits(seed, offsets, p));
}
template <RandomSeed S, RandomOffsets E>
std::array<Tile<float, rank_v<E>>, 4> rand4(const S& seed, const E& offsets,
                                            const Place& p = std::source_location::current()) {
  constexpr int R = rank_v<E>;
  const auto w = random_bits4(seed, offsets, p);
  return {detail::to_uniform<R>(w[0]), detail::to_uniform<R>(w[1]), detail::to_uniform<R>(w[2]),
          detail::to_uniform<R>(w[3])};
}

template <class S, class E>
  requires(!RandomOffsets<E>)
TILEWEAVE_REFUSED("rand: the offsets are an integer tile, a number for each lane (tw::arange)")
void rand(const S&, const E&);

// Normal with mean 0 and deviation 1; the largest value is 5.77.
template <RandomSeed S, RandomOffsets E>
Tile<float, rank_v<E>> randn(const S& seed, const E& offsets, const Place& p = std::source_location::current()) {
  const auto w = random_bits4(seed, offsets, p);
  return detail::to_normal<rank_v<E>>(w[0], w[1])[0];
}
template <RandomSeed S, RandomOffsets E>
std::array<Tile<float, rank_v<E>>, 4> randn4(const S& seed, const E& offsets,
                                             const Place& p = std::source_location::current()) {
  constexpr int R = rank_v<E>;
  const auto w = random_bits4(seed, offsets, p);
  const auto a = detail::to_normal<R>(w[0], w[1]), b = detail::to_normal<R>(w[2], w[3]);
  return {a[0], a[1], b[0], b[1]};
}

// Integers in [lo, hi), each as likely as 2^32 words divide among them (the largest difference is hi - lo in 2^32).
template <RandomSeed S, RandomOffsets E>
Tile<std::int32_t, rank_v<E>> randint(const S& seed, const E& offsets, std::int32_t lo, std::int32_t hi,
                                      const Place& p = std::source_location::current()) {
  const auto range = static_cast<std::uint32_t>(static_cast<std::int64_t>(hi) - lo);
  const auto picked = mul_hi(random_bits(seed, offsets, p), range);
  return picked.template to<std::int32_t>() + lo;
}

}  // namespace tileweave
