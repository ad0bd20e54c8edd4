// Elements of a view by tiles of indices: load_at (gather) and store_at (scatter), one index for each axis.
// Over the pointer form of load and store: offsets are 64-bit, and what lies outside the view is never touched.
#pragma once

#include <tuple>

#include "tileweave/dsl/memory.h"

namespace tileweave {

namespace detail {

template <class T>
struct IndexTiles {
  static constexpr bool known = false;
};
template <Operand... I>
  requires((IntElem<elem_t<I>> && rank_v<I> >= 0) && ...)
struct IndexTiles<std::tuple<I...>> {
  static constexpr bool known = true;
  static constexpr int count = sizeof...(I), rank = std::max({rank_v<I>...});
};
template <class I, int R>
concept IndicesOf = IndexTiles<I>::known && IndexTiles<I>::count == R;

template <class T, int R>
struct Places {
  PtrTile<T, R> pointers;
  Tile<bool, R> inside;
};

// The address of each lane's element, and whether the view has it.
template <class T, int R, class I, std::size_t... K>
Places<T, IndexTiles<I>::rank> places_of(const View<T, R>& view, const I& indices, const Place& p,
                                         std::index_sequence<K...>) {
  constexpr int rank = IndexTiles<I>::rank;
  const auto at = [&]<std::size_t k>(std::integral_constant<std::size_t, k>) {
    using X = std::tuple_element_t<k, I>;
    return Tile<index_t, rank_v<X>>(record_as(std::get<k>(indices), Dtype::i64, p));
  };
  const std::tuple i(at(std::integral_constant<std::size_t, K>{})...);
  const auto offset = (... + (std::get<K>(i) * view.stride(static_cast<int>(K), p)));
  const auto inside = (... & ((std::get<K>(i) >= index_t{0}) & (std::get<K>(i) < view.extent(static_cast<int>(K), p))));
  return {view.ptr(p) + Tile<index_t, rank>(offset, p), Tile<bool, rank>(inside, p)};
}

}  // namespace detail

// Lane l is view[i[l], j[l], ...]: load_at(x, std::tuple(rows, columns)). The indices are integers and integer tiles,
// broadcast together. Lanes outside the view are invalid, or `.pad`.
template <class T, int R, detail::IndicesOf<R> I>
Tile<typename View<T, R>::elem, detail::IndexTiles<I>::rank> load_at(
    View<T, R> view, const I& indices,
    std::type_identity_t<LoadOptions<std::remove_const_t<T>, detail::IndexTiles<I>::rank>> options = {},
    const Place& p = std::source_location::current()) {
  constexpr int rank = detail::IndexTiles<I>::rank;
  const auto at = detail::places_of(view, indices, p, std::make_index_sequence<static_cast<std::size_t>(R)>{});
  if (options.mask.raw().value != nullptr) {
    options.mask = Mask<rank>(at.inside & Tile<bool, rank>(options.mask.raw()), p);
  } else {
    options.mask = Mask<rank>(at.inside, p);
  }
  return load(at.pointers, options, p);
}

// view[i[l], j[l], ...] = value[l] for every valid lane inside the view. Of lanes with equal indices one is written.
template <class T, int R, detail::IndicesOf<R> I, Operand E>
  requires(!std::is_const_v<T> && ConvertsTo<E, canonical_t<T>> && rank_v<E> <= detail::IndexTiles<I>::rank)
void store_at(View<T, R> view, const I& indices, const E& value,
              std::type_identity_t<StoreOptions<detail::IndexTiles<I>::rank>> options = {},
              const Place& p = std::source_location::current()) {
  constexpr int rank = detail::IndexTiles<I>::rank;
  const auto at = detail::places_of(view, indices, p, std::make_index_sequence<static_cast<std::size_t>(R)>{});
  if (options.mask.raw().value != nullptr) {
    options.mask = Mask<rank>(at.inside & Tile<bool, rank>(options.mask.raw()), p);
  } else {
    options.mask = Mask<rank>(at.inside, p);
  }
  store(at.pointers, value, options, p);
}

template <class T, int R, class I, class... A>
  requires(!detail::IndicesOf<I, R>)
TILEWEAVE_REFUSED("load_at: give a std::tuple with one integer or integer tile for each axis of the view")
void load_at(View<T, R>, const I&, const A&...);
template <class T, int R, class I, class E, class... A>
  requires(!detail::IndicesOf<I, R>)
TILEWEAVE_REFUSED("store_at: give a std::tuple with one integer or integer tile for each axis of the view")
void store_at(View<T, R>, const I&, const E&, const A&...);

}  // namespace tileweave
