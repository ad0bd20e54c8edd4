// sort argsort topk histogram.
// The order of floats: -0 before +0, NaN after all numbers (first when descending). Invalid lanes take no part: what is
// valid comes first, and the result's validity says so.
#pragma once

#include <tuple>

#include "tileweave/dsl/rearrange.h"

namespace tileweave {

struct descending_t {};
inline constexpr descending_t descending{};

// Sorted along the axis. Stable where it shows: equal elements have equal bits, NaNs aside.
template <TileNode E>
  requires(rank_v<E> > 0)
Tile<elem_t<E>, rank_v<E>> sort(const E& e, int axis = -1, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E>>(record::sort(record_node(e, p), axis, false, false, p));
}
template <TileNode E>
  requires(rank_v<E> > 0)
Tile<elem_t<E>, rank_v<E>> sort(const E& e, int axis, descending_t, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E>>(record::sort(record_node(e, p), axis, true, false, p));
}
template <TileNode E, class... A>
  requires(rank_v<E> == 0)
TILEWEAVE_REFUSED("sort: a scalar has no axis to sort along")
E sort(const E&, const A&...);

// i32: the lane that each place of the sorted line is taken from; equal lanes keep their order.
template <TileNode E>
  requires(rank_v<E> > 0)
Tile<int, rank_v<E>> argsort(const E& e, int axis = -1, const Place& p = std::source_location::current()) {
  return Tile<int, rank_v<E>>(record::sort(record_node(e, p), axis, false, true, p));
}
template <TileNode E>
  requires(rank_v<E> > 0)
Tile<int, rank_v<E>> argsort(const E& e, int axis, descending_t, const Place& p = std::source_location::current()) {
  return Tile<int, rank_v<E>>(record::sort(record_node(e, p), axis, true, true, p));
}

// The k largest of each line, largest first, with the lanes they come from (the lowest of equal ones).
template <class T, int R>
struct TopK {
  Tile<T, R> values;
  Tile<int, R> indices;
};
template <TileNode E, detail::ConstInteger K>
  requires(rank_v<E> > 0)
TopK<elem_t<E>, rank_v<E>> topk(const E& e, const K& k, int axis = -1,
                                const Place& p = std::source_location::current()) {
  const record::Raw x = record_node(e, p);
  const record::Raw indices = record::topk_indices(x, static_cast<index_t>(host_value(k)), axis, p);
  return {Tile<elem_t<E>, rank_v<E>>(record::gather(x, indices, axis, p)), Tile<int, rank_v<E>>(indices)};
}

// Sorts tiles of one shape together by the first of them: sort_by(keys, axis, values...) gives all of them in order.
template <TileNode E, TileNode... V>
  requires(rank_v<E> > 0 && ((rank_v<V> == rank_v<E>) && ...))
std::tuple<Tile<elem_t<E>, rank_v<E>>, Tile<elem_t<V>, rank_v<V>>...> sort_by(const E& keys, int axis,
                                                                              const V&... values) {
  const Tile<elem_t<E>, rank_v<E>> k = keys;
  const Tile<int, rank_v<E>> from = argsort(k, axis);
  return {gather(k, from, axis), gather(values, from, axis)...};
}

// How many valid lanes hold 0, 1, ..., bins - 1: i32[bins]. Other values are not counted. Any rank.
template <TileNode E, detail::ConstInteger N>
  requires IntElem<elem_t<E>>
Tile<int, 1> histogram(const E& e, const N& bins, const Place& p = std::source_location::current()) {
  return Tile<int, 1>(record::histogram(record_node(e, p), static_cast<index_t>(host_value(bins)), p));
}
template <TileNode E, detail::ConstInteger N>
  requires(!IntElem<elem_t<E>>)
TILEWEAVE_REFUSED("histogram: the values are integers: convert with .to<int>()")
E histogram(const E&, const N&);

}  // namespace tileweave
