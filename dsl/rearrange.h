// Moving the elements of tiles: slice cat flip gather, join split interleave, squeeze.
// Element types and ranks are checked by the C++ compiler, extents when the kernel is recorded. Validity moves along.
#pragma once

#include <utility>

#include "tileweave/dsl/reduce.h"

namespace tileweave {

// The block of `extents` that begins at `starts`: slice(t, {0, 8}, {4, 8}). Constants; the block lies inside the tile.
template <TileNode E, std::size_t N>
  requires(rank_v<E> == static_cast<int>(N))
Tile<elem_t<E>, rank_v<E>> slice(const E& e, const index_t (&starts)[N], const index_t (&extents)[N],
                                 const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E>>(
      record::slice(record_node(e, p), record::ExtentSpan(starts, N), record::ExtentSpan(extents, N), p));
}
template <TileNode E, std::size_t N, std::size_t M>
  requires(rank_v<E> != static_cast<int>(N) || N != M)
TILEWEAVE_REFUSED("slice: give one start and one extent for each axis")
E slice(const E&, const index_t (&)[N], const index_t (&)[M]);

namespace detail {
template <class A, class B>
concept SameTiles = TileNode<A> && TileNode<B> && std::same_as<elem_t<A>, elem_t<B>> && rank_v<A> == rank_v<B>;
}  // namespace detail

// a, then b along the axis; all other extents are equal.
template <class A, class B>
  requires(detail::SameTiles<A, B> && rank_v<A> > 0)
Tile<elem_t<A>, rank_v<A>> cat(const A& a, const B& b, int axis = 0, const Place& p = std::source_location::current()) {
  return Tile<elem_t<A>, rank_v<A>>(record::cat(record_node(a, p), record_node(b, p), axis, p));
}
template <TileNode A, TileNode B>
  requires(!detail::SameTiles<A, B>)
TILEWEAVE_REFUSED("cat: both sides have one element type and one rank: convert with .to<T>(), add axes with tw::expand")
A cat(const A&, const B&, int = 0);

// The axis in reverse order.
template <TileNode E>
  requires(rank_v<E> > 0)
Tile<elem_t<E>, rank_v<E>> flip(const E& e, int axis = -1, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E>>(record::flip(record_node(e, p), axis, p));
}

// result[.., i, ..] = t[.., index[.., i, ..], ..]: picks along one axis, whose extent may differ; all others are equal.
// An index outside the axis gives 0, and so does an invalid lane of the tile. Valid where the index is.
template <TileNode E, TileNode I>
  requires(rank_v<E> == rank_v<I> && rank_v<E> > 0 && IntElem<elem_t<I>>)
Tile<elem_t<E>, rank_v<E>> gather(const E& e, const I& index, int axis,
                                  const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E>>(record::gather(record_node(e, p), record_node(index, p), axis, p));
}
template <TileNode E, TileNode I>
  requires(!(rank_v<E> == rank_v<I> && rank_v<E> > 0 && IntElem<elem_t<I>>))
TILEWEAVE_REFUSED("gather: the index is a tile of integers of the same rank")
E gather(const E&, const I&, int);

// The axis of extent 1 goes.
template <TileNode E>
  requires(rank_v<E> > 0)
Tile<elem_t<E>, rank_v<E> - 1> squeeze(const E& e, int axis, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E> - 1>(record::squeeze(record_node(e, p), axis, p));
}

// A new last axis of extent 2: [.., 0] is a, [.., 1] is b.
template <class A, class B>
  requires(detail::SameTiles<A, B> && rank_v<A> < 5)
Tile<elem_t<A>, rank_v<A> + 1> join(const A& a, const B& b, const Place& p = std::source_location::current()) {
  constexpr int r = rank_v<A>;
  return cat(expand(a, r, p), expand(b, r, p), r, p);
}
template <TileNode A, TileNode B>
  requires(!detail::SameTiles<A, B>)
TILEWEAVE_REFUSED("join: both sides have one element type and one rank: convert one with .to<T>()")
A join(const A&, const B&);

// The opposite of join: the last axis has extent 2, the two halves come back.
template <TileNode E>
  requires(rank_v<E> > 0)
std::pair<Tile<elem_t<E>, rank_v<E> - 1>, Tile<elem_t<E>, rank_v<E> - 1>> split(
    const E& e, const Place& p = std::source_location::current()) {
  const auto [a, b] = record::split(record_node(e, p), p);
  using Half = Tile<elem_t<E>, rank_v<E> - 1>;
  return {Half(a), Half(b)};
}

// a[0], b[0], a[1], b[1], ... along the last axis.
template <class A, class B>
  requires(detail::SameTiles<A, B> && rank_v<A> > 0)
Tile<elem_t<A>, rank_v<A>> interleave(const A& a, const B& b, const Place& p = std::source_location::current()) {
  return Tile<elem_t<A>, rank_v<A>>(record::interleave(record_node(a, p), record_node(b, p), p));
}

// A tile of the same extents (and validity) with one value.
template <TileNode E, ConvertsTo<elem_t<E>> V>
  requires(rank_v<V> == 0)
Tile<elem_t<E>, rank_v<E>> full_like(const E& e, const V& value, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E>>(record::fill_like(record_node(e, p), record_as(value, dtype_of<elem_t<E>>, p), p));
}
template <TileNode E>
Tile<elem_t<E>, rank_v<E>> zeros_like(const E& e, const Place& p = std::source_location::current()) {
  return full_like(e, elem_t<E>{}, p);
}

}  // namespace tileweave
