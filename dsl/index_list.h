// Braced lists of offsets and extents: {row, 0} and {1, BLOCK}, checked for count and kind by the C++ compiler.
// Taken by loads, stores and the creation of tiles.
#pragma once

#include <array>
#include <concepts>
#include <utility>

#include "tileweave/dsl/math.h"

namespace tileweave {

namespace detail {
template <class X>
concept ConstInteger = HostValue<X> && IntElem<host_value_t<X>>;
template <class X>
concept IntegerNode = Node<X> && rank_v<X> == 0 && IntElem<elem_t<X>>;
}  // namespace detail

// One item of an index list: an integer of the program or of the kernel.
class Offset {
 public:
  template <detail::ConstInteger I>
  Offset(const I& i, const Place& p = std::source_location::current())
      : raw_(record::constant(record::literal(host_value(i)), Dtype::i64, p)) {}
  template <detail::IntegerNode E>
  Offset(const E& e, const Place& p = std::source_location::current()) : raw_(record_as(e, Dtype::i64, p)) {}
  template <Node E>
    requires(rank_v<E> == 0 && !IntElem<elem_t<E>>)
  TILEWEAVE_REFUSED("an offset is an integer: convert it with .to<tw::index_t>()")
  Offset(const E&);
  template <Node E>
    requires(rank_v<E> != 0)
  TILEWEAVE_REFUSED("an offset is a scalar: a tile of offsets needs the pointer form of tw::load")
  Offset(const E&);
  template <HostValue F>
    requires(!IntElem<host_value_t<F>>)
  TILEWEAVE_REFUSED("an offset is an integer")
  Offset(const F&);

  const record::Raw& raw() const { return raw_; }

 private:
  record::Raw raw_;
};

template <class X>
concept OffsetLike = Operand<X>;

namespace detail {
template <std::size_t>
using OffsetAt = Offset;
}  // namespace detail

template <class Seq>
class IndexList;
template <std::size_t... K>
class IndexList<std::index_sequence<K...>> {
 public:
  IndexList(detail::OffsetAt<K>... i) : raw_{i.raw()...} {}
  template <OffsetLike... I>
    requires(sizeof...(I) != sizeof...(K) && sizeof...(I) > 0)
  TILEWEAVE_REFUSED("give one offset for each axis of the view")
  IndexList(const I&...);

  std::span<const record::Raw> raw() const { return raw_; }

 private:
  std::array<record::Raw, sizeof...(K)> raw_;
};
// R offsets.
template <int R>
using Index = IndexList<std::make_index_sequence<static_cast<std::size_t>(R)>>;

// R extents of a tile: constants of the kernel.
template <int R>
class Extents {
 public:
  template <detail::ConstInteger... I>
    requires(sizeof...(I) == R)
  constexpr Extents(const I&... i) : values_{static_cast<index_t>(host_value(i))...} {}
  template <detail::ConstInteger... I>
    requires(sizeof...(I) != R && sizeof...(I) > 0)
  TILEWEAVE_REFUSED("give one extent for each axis of the view")
  Extents(const I&...);
  template <Operand... I>
    requires(sizeof...(I) == R && (Node<I> || ...))
  TILEWEAVE_REFUSED("the extents of a tile are constants: pass a number or a tw::Const<int> parameter")
  Extents(const I&...);

  record::ExtentSpan span() const { return values_; }

 private:
  std::array<index_t, static_cast<std::size_t>(R)> values_;
};

// A list that anything goes into, for overloads that only refuse.
struct AnyList {
  template <class... I>
  AnyList(const I&...) {}
};

}  // namespace tileweave
