// dot: the product of two tiles, with accumulator. Invalid lanes count as zero.
// Between loads and the epilogue of a matmul.
#pragma once

#include "tileweave/dsl/shape.h"

namespace tileweave {

// How f32 operands are multiplied: in full f32, or rounded to tf32 where the device has it.
enum class Precision : std::uint8_t { full, tf32 };

namespace detail {
// What a product of T accumulates in.
template <class T>
using accumulator_t =
    std::conditional_t<NarrowFloatType<T>, float,
                       std::conditional_t<std::same_as<T, std::int8_t> || std::same_as<T, std::uint8_t>, int, T>>;
template <class A, class B>
concept DotOperands = TileNode<A> && TileNode<B> && (rank_v<A> >= 2) && rank_v<A> == rank_v<B> &&
                      std::same_as<elem_t<A>, elem_t<B>> && NumberElem<elem_t<A>>;
constexpr std::string_view precision_text(Precision p) { return p == Precision::tf32 ? "tf32" : ""; }
}  // namespace detail

// acc[m, n] + sum over k of a[m, k] * b[k, n]; leading axes are a batch. f16, bf16, fp8 accumulate in f32, i8 in i32.
template <class A, class B>
  requires detail::DotOperands<A, B>
Tile<detail::accumulator_t<elem_t<A>>, rank_v<A>> dot(
    const A& a, const B& b, std::type_identity_t<Tile<detail::accumulator_t<elem_t<A>>, rank_v<A>>> acc,
    Precision precision = Precision::full, const Place& p = std::source_location::current()) {
  using R = detail::accumulator_t<elem_t<A>>;
  return Tile<R, rank_v<A>>(
      record::dot(record_node(a, p), record_node(b, p), acc.raw(), dtype_of<R>, detail::precision_text(precision), p));
}
// The same from zero; rows and columns past an edge stay invalid.
template <class A, class B>
  requires detail::DotOperands<A, B>
Tile<detail::accumulator_t<elem_t<A>>, rank_v<A>> dot(const A& a, const B& b, Precision precision = Precision::full,
                                                      const Place& p = std::source_location::current()) {
  using R = detail::accumulator_t<elem_t<A>>;
  return Tile<R, rank_v<A>>(
      record::dot(record_node(a, p), record_node(b, p), {}, dtype_of<R>, detail::precision_text(precision), p));
}

template <TileNode A, TileNode B, class... C>
  requires(rank_v<A> == rank_v<B> && rank_v<A> >= 2 && !std::same_as<elem_t<A>, elem_t<B>>)
TILEWEAVE_REFUSED("dot: both sides have one element type: convert one with .to<T>()")
A dot(const A&, const B&, const C&...);
template <TileNode A, TileNode B, TileNode C>
  requires(detail::DotOperands<A, B> && !ConvertsTo<C, detail::accumulator_t<elem_t<A>>>)
TILEWEAVE_REFUSED(
    "dot: f16, bf16 and fp8 accumulate in float, 8-bit integers in int, others in their own type: convert the "
    "accumulator "
    "with .to<T>()")
A dot(const A&, const B&, const C&);
template <TileNode A, TileNode B, class... C>
  requires(rank_v<A> < 2 || rank_v<A> != rank_v<B>)
TILEWEAVE_REFUSED("dot: both sides have the same rank, at least 2: use tw::expand or tw::reshape")
A dot(const A&, const B&, const C&...);

}  // namespace tileweave
