// Views and pointers: what a kernel reads and writes; load and store.
// A View is a kernel's parameter; tiles come from it and go to it.
#pragma once

#include "tileweave/dsl/index_list.h"

namespace tileweave {

template <class T, int R>
class PtrTile;
// A pointer to one element.
template <class T>
using Ptr = PtrTile<T, 0>;

// A kernel parameter: pointer, extents and strides of a tensor. View<const T, R> is read-only.
template <class T, int R>
class View {
 public:
  using elem = canonical_t<std::remove_const_t<T>>;
  static_assert(ElementType<elem>, "a view's element is one of the language's element types");
  static_assert(R >= 0 && R <= 5, "a view has at most 5 axes");
  static constexpr int rank = R;

  explicit View(const record::Raw& raw) : raw_(raw) {}
  // Elements along an axis; negative axes count from the end.
  Scalar<index_t> extent(int axis, const Place& p = std::source_location::current()) const {
    return Scalar<index_t>(record::view_extent(raw_, axis, p));
  }
  // Elements between neighbours along an axis.
  Scalar<index_t> stride(int axis, const Place& p = std::source_location::current()) const {
    return Scalar<index_t>(record::view_stride(raw_, axis, p));
  }
  // The address of the element with all indices 0.
  Ptr<T> ptr(const Place& p = std::source_location::current()) const;

  const record::Raw& raw() const { return raw_; }

 private:
  record::Raw raw_;
};

// Pointers to elements, one in each lane: gather and scatter as in Triton. `pointers + tile` moves them by elements.
template <class T, int R>
class PtrTile {
 public:
  static constexpr int rank = R;
  explicit PtrTile(const record::Raw& raw) : raw_(raw) {}
  const record::Raw& raw() const { return raw_; }

  template <Operand E>
    requires(IntElem<elem_t<E>> && rank_v<E> >= 0)
  PtrTile<T, std::max(R, rank_v<E>)> operator+(const E& offsets) const {
    return PtrTile<T, std::max(R, rank_v<E>)>(record::advance(raw_, record_as(offsets, Dtype::i64, {}), {}));
  }
  template <Operand E>
    requires(IntElem<elem_t<E>> && rank_v<E> >= 0)
  PtrTile<T, std::max(R, rank_v<E>)> operator-(const E& offsets) const {
    return *this + (0 - Tile<index_t, rank_v<E>>(record_as(offsets, Dtype::i64, {})));
  }

 private:
  record::Raw raw_;
};

template <class T, int R>
Ptr<T> View<T, R>::ptr(const Place& p) const {
  return Ptr<T>(record::pointer(raw_, p));
}

// `.pad = v`: the value of lanes outside, which are valid then.
template <class T>
class Pad {
 public:
  Pad() = default;
  template <HostValue V>
    requires detail::takes_literal<T, host_value_t<V>>
  Pad(const V& v) : literal_(record::literal(host_value(v))), given_(true) {}
  template <HostValue V>
    requires(!detail::takes_literal<T, host_value_t<V>>)
  TILEWEAVE_REFUSED("a floating-point pad for an integer tile: use tw::lowest<T>, tw::highest<T> or an integer")
  Pad(const V&);

  const record::Literal& literal() const { return literal_; }
  bool given() const { return given_; }

 private:
  record::Literal literal_{};
  bool given_ = false;
};

// `.mask = m`: lanes where m is false are not touched.
template <int R>
class Mask {
 public:
  Mask() = default;
  template <Node E>
    requires(std::same_as<elem_t<E>, bool> && rank_v<E> <= R)
  Mask(const E& e, const Place& p = std::source_location::current()) : raw_(record_node(e, p)) {}
  const record::Raw& raw() const { return raw_; }

 private:
  record::Raw raw_{};
};

// `.cache = tw::Cache::streaming`: how the caches should treat what is loaded or stored. Values do not depend
// on it, but for volatile_ where other programs write what this one reads.
enum class Cache : std::uint8_t {
  automatic,
  streaming,    // used once: the first to go
  no_allocate,  // past the first level
  keep,         // used again: the last to go
  volatile_     // in memory at this point of the program, once for each lane: another program may change it meanwhile
};

template <class T, int R>
struct LoadOptions {
  Pad<T> pad = {};
  Mask<R> mask = {};
  Cache cache = Cache::automatic;
};
template <int R>
struct StoreOptions {
  Mask<R> mask = {};
  Cache cache = Cache::automatic;
};

namespace detail {
constexpr std::string_view hint_of(Cache c) {
  constexpr std::string_view names[] = {"", "streaming", "no_allocate", "keep", "volatile"};
  return names[static_cast<std::size_t>(c)];
}
template <class T, int R>
record::LoadRequest request_of(const LoadOptions<T, R>& o) {
  return {o.pad.given(), o.pad.literal(), o.mask.raw(), hint_of(o.cache)};
}
}  // namespace detail

// The block of `extents` at `offsets`. Lanes outside the view are invalid, or `.pad`.
template <class T, int R>
Tile<typename View<T, R>::elem, R> load(View<T, R> view, std::type_identity_t<Index<R>> offsets,
                                        std::type_identity_t<Extents<R>> extents,
                                        std::type_identity_t<LoadOptions<std::remove_const_t<T>, R>> options = {},
                                        const Place& p = std::source_location::current()) {
  return Tile<typename View<T, R>::elem, R>(
      record::load(view.raw(), offsets.raw(), extents.span(), detail::request_of(options), p));
}

// Writes the tile's valid lanes that lie inside the view. A lower rank gets leading axes of extent 1.
template <class T, int R, Operand E>
  requires(!std::is_const_v<T> && ConvertsTo<E, canonical_t<T>> && rank_v<E> <= R && leaf_v<E> != Leaf::tensor)
void store(View<T, R> view, std::type_identity_t<Index<R>> offsets, const E& value,
           std::type_identity_t<StoreOptions<R>> options = {}, const Place& p = std::source_location::current()) {
  record::store(view.raw(), offsets.raw(), record_as(value, dtype_of<T>, p), options.mask.raw(), p,
                detail::hint_of(options.cache));
}
template <class T, int R, Operand E>
  requires std::is_const_v<T>
TILEWEAVE_REFUSED("the view is read-only: declare the parameter as tw::View<T, R> without const")
void store(View<T, R>, AnyList, const E&);
template <class T, int R, Operand E>
  requires(!std::is_const_v<T> && !ConvertsTo<E, canonical_t<T>>)
TILEWEAVE_REFUSED("the tile has another element type than the view: convert it with .to<T>()")
void store(View<T, R>, AnyList, const E&);
template <class T, int R, Operand E>
  requires(!std::is_const_v<T> && ConvertsTo<E, canonical_t<T>> && (rank_v<E> > R))
TILEWEAVE_REFUSED("the tile has a higher rank than the view: reduce or reshape it")
void store(View<T, R>, AnyList, const E&);

// Gather: one element from each pointer. Nothing is known of what lies behind a pointer: mask what must not be read.
template <class T, int R>
Tile<canonical_t<std::remove_const_t<T>>, R> load(
    const PtrTile<T, R>& pointers, std::type_identity_t<LoadOptions<std::remove_const_t<T>, R>> options = {},
    const Place& p = std::source_location::current()) {
  return Tile<canonical_t<std::remove_const_t<T>>, R>(
      record::load_pointers(pointers.raw(), detail::request_of(options), p));
}
// Scatter. Where two lanes have the same pointer, one of them is written.
template <class T, int R, Operand E>
  requires(!std::is_const_v<T> && ConvertsTo<E, canonical_t<T>> && rank_v<E> <= R)
void store(const PtrTile<T, R>& pointers, const E& value, std::type_identity_t<StoreOptions<R>> options = {},
           const Place& p = std::source_location::current()) {
  record::store_pointers(pointers.raw(), record_as(value, dtype_of<T>, p), options.mask.raw(), p,
                         detail::hint_of(options.cache));
}

}  // namespace tileweave
