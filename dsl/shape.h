// Creation and shape of tiles: zeros, full, arange; reshape, trans, expand, broadcast_to; valid, fill_invalid.
// Element types and ranks are checked by the C++ compiler, extents when the kernel is recorded.
#pragma once

#include "tileweave/dsl/index_list.h"

namespace tileweave {

template <class E>
concept TileNode = Node<E> && leaf_v<E> != Leaf::tensor && leaf_v<E> != Leaf::mixed;

// A tile with `value` in every lane: full<float>(0.5f, M, N). Extents are constants.
template <ElementType T, ConvertsTo<T> V, detail::ConstInteger... I>
  requires(rank_v<V> == 0)
Tile<T, static_cast<int>(sizeof...(I))> full(const V& value, const I&... extents) {
  const index_t e[] = {static_cast<index_t>(host_value(extents))..., 0};
  return Tile<T, static_cast<int>(sizeof...(I))>(
      record::full(record_as(value, dtype_of<T>, {}), record::ExtentSpan(e, sizeof...(I)), {}));
}
template <ElementType T, detail::ConstInteger... I>
Tile<T, static_cast<int>(sizeof...(I))> zeros(const I&... extents) {
  return full<T>(T(0), extents...);
}
template <ElementType T, detail::ConstInteger... I>
Tile<T, static_cast<int>(sizeof...(I))> ones(const I&... extents) {
  return full<T>(T(1), extents...);
}

// 0, 1, ..., n - 1; or start, ..., end - 1. T is an integer type.
template <IntElem T = int, detail::ConstInteger I>
Tile<T, 1> arange(const I& n, const Place& p = std::source_location::current()) {
  static_assert(sizeof(T) >= 4, "arange: 32- or 64-bit integers; narrow them with .to<T>()");
  return Tile<T, 1>(record::iota(static_cast<index_t>(host_value(n)), dtype_of<T>, 0, p));
}
template <IntElem T = int, detail::ConstInteger I, detail::ConstInteger J>
Tile<T, 1> arange(const I& start, const J& end, const Place& p = std::source_location::current()) {
  const auto lo = static_cast<index_t>(host_value(start)), hi = static_cast<index_t>(host_value(end));
  return Tile<T, 1>(record::iota(hi - lo, dtype_of<T>, lo, p));
}

// A new axis of extent 1 before `axis`.
template <TileNode E>
Tile<elem_t<E>, rank_v<E> + 1> expand(const E& e, int axis, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E> + 1>(record::expand(record_node(e, p), axis, p));
}

// The same elements in row-major order: reshape(t, {4, 32}).
template <TileNode E, std::size_t N>
Tile<elem_t<E>, static_cast<int>(N)> reshape(const E& e, const index_t (&extents)[N],
                                             const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, static_cast<int>(N)>(record::reshape(record_node(e, p), record::ExtentSpan(extents, N), p));
}
// All elements in one axis.
template <TileNode E>
Tile<elem_t<E>, 1> ravel(const E& e, const Place& p = std::source_location::current()) {
  const record::Raw r = record_node(e, p);
  index_t n = 1;
  for (const index_t x : record::shape(r, p)) n *= x;
  return Tile<elem_t<E>, 1>(record::reshape(r, record::ExtentSpan(&n, 1), p));
}

// Result axis i is axis perm[i]; without axes the last two are swapped.
template <TileNode E>
  requires(rank_v<E> >= 2)
Tile<elem_t<E>, rank_v<E>> trans(const E& e, const Place& p = std::source_location::current()) {
  std::array<int, static_cast<std::size_t>(rank_v<E>)> perm{};
  for (int i = 0; i < rank_v<E>; ++i) perm[static_cast<std::size_t>(i)] = i;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return Tile<elem_t<E>, rank_v<E>>(record::transpose(record_node(e, p), perm, p));
}
template <TileNode E, std::size_t N>
  requires(rank_v<E> == static_cast<int>(N))
Tile<elem_t<E>, rank_v<E>> permute(const E& e, const int (&perm)[N], const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E>>(record::transpose(record_node(e, p), perm, p));
}

// Axes of extent 1 grow; a lower rank gets leading axes, as in NumPy.
template <TileNode E, std::size_t N>
  requires(rank_v<E> <= static_cast<int>(N))
Tile<elem_t<E>, static_cast<int>(N)> broadcast_to(const E& e, const index_t (&extents)[N],
                                                  const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, static_cast<int>(N)>(record::broadcast(record_node(e, p), record::ExtentSpan(extents, N), p));
}

// Which lanes are valid.
template <TileNode E>
Tile<bool, rank_v<E>> valid(const E& e, const Place& p = std::source_location::current()) {
  return Tile<bool, rank_v<E>>(record::valid(record_node(e, p), p));
}

}  // namespace tileweave
