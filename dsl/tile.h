// Tile and Var: the immutable and the mutable value of a kernel; casts of any node.
// Over expr.h and record.h: a Tile is a leaf of expressions, and what an expression becomes when it is recorded.
#pragma once

#include <source_location>
#include <vector>

#include "tileweave/dsl/expr.h"

namespace tileweave {

// A block of T in registers, immutable. R is its rank; a Scalar<T> is a Tile<T, 0>.
template <class T, int R>
class Tile : public NodeBase<Tile<T, R>> {
 public:
  static_assert(ElementType<T>, "a tile's element is one of the language's element types");
  using elem = T;
  static constexpr int rank = R, nodes = 1;
  static constexpr bool weak = false;
  static constexpr Leaf leaf = Leaf::tile;

  // A tile that the functions of record.h made.
  explicit Tile(const record::Raw& raw) : raw_(raw) {}
  Tile(const Tile&) = default;
  // Records the expression; integers widen.
  template <Node E>
    requires(!std::derived_from<E, Tile> && !std::same_as<E, Var<T, R>> && ConvertsTo<E, T> && rank_v<E> == R &&
             leaf_v<E> != Leaf::tensor)
  Tile(const E& e, const Place& p = std::source_location::current()) : raw_(record_as(e, dtype_of<T>, p)) {}

  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE) Tile& operator=(const Tile&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Tile& operator=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Tile& operator+=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Tile& operator-=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Tile& operator*=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Tile& operator/=(const U&);

  const record::Raw& raw() const { return raw_; }
  // The extent of an axis, a C++ number: extents are constants of the kernel.
  index_t extent(int axis, const Place& p = std::source_location::current()) const {
    const std::vector<index_t> e = record::shape(raw_, p);
    return e[static_cast<std::size_t>(axis < 0 ? axis + R : axis)];
  }
  template <class C>
  record::Raw record(C& context, Dtype want) const {
    const record::Raw r = context.leaf(raw_);
    return want == dtype_of<T> ? r : record::convert(r, want, false, context.place);
  }
  template <class S>
  Tile bind(const S&) const {
    return *this;
  }

 private:
  record::Raw raw_;
};

// A number wherever a Scalar is wanted: Scalar<T> parameters of functions take both.
template <class T, ConvertsTo<T> E>
  requires(rank_v<E> <= 0)
Scalar<T> scalar(const E& e, const Place& p = std::source_location::current()) {
  return Scalar<T>(record_as(e, dtype_of<T>, p));
}

// A mutable tile. Its element type, extents and validity are those of its initialiser for ever.
template <class T, int R>
class Var : public NodeBase<Var<T, R>> {
 public:
  using elem = T;
  static constexpr int rank = R, nodes = 1;
  static constexpr bool weak = false;
  static constexpr Leaf leaf = Leaf::tile;

  template <Operand E>
    requires(ConvertsTo<E, T> && rank_v<E> == R)
  Var(const E& e, const Place& p = std::source_location::current())
      : var_(record::make_var(record_as(e, dtype_of<T>, p), p)) {}
  // A new variable with the other's value.
  Var(const Var& o, const Place& p = std::source_location::current())
      : var_(record::make_var(record::read_var(o.var_, p), p)) {}

  // Updates the lanes that are valid on the right-hand side; the others keep their value.
  Var& operator=(const Var& o) { return assign(Tile<T, R>(o), {}); }
  template <Operand E>
    requires(ConvertsTo<E, T> && rank_v<E> <= R)
  Var& operator=(const E& e) {
    return assign(e, {});
  }
  template <Operand E>
    requires(!ConvertsTo<E, T>)
  TILEWEAVE_REFUSED("the element type of a tw::Var is fixed: convert the value with .to<T>()")
  Var& operator=(const E&);
  template <Operand E>
    requires(ConvertsTo<E, T> && (rank_v<E> > R))
  TILEWEAVE_REFUSED("the rank of a tw::Var is fixed: reduce or reshape the value")
  Var& operator=(const E&);
  // The same as =, with the place of the call for errors.
  template <Operand E>
  Var& set(const E& e, const Place& p = std::source_location::current()) {
    return assign(e, p);
  }

  template <Operand E>
  Var& operator+=(const E& e) {
    return *this = *this + e;
  }
  template <Operand E>
  Var& operator-=(const E& e) {
    return *this = *this - e;
  }
  template <Operand E>
  Var& operator*=(const E& e) {
    return *this = *this * e;
  }
  template <Operand E>
  Var& operator/=(const E& e) {
    return *this = *this / e;
  }
  template <Operand E>
  Var& operator%=(const E& e) {
    return *this = *this % e;
  }
  template <Operand E>
  Var& operator&=(const E& e) {
    return *this = *this & e;
  }
  template <Operand E>
  Var& operator|=(const E& e) {
    return *this = *this | e;
  }
  template <Operand E>
  Var& operator^=(const E& e) {
    return *this = *this ^ e;
  }
  template <Operand E>
  Var& operator<<=(const E& e) {
    return *this = *this << e;
  }
  template <Operand E>
  Var& operator>>=(const E& e) {
    return *this = *this >> e;
  }

  // The value now.
  operator Tile<T, R>() const { return Tile<T, R>(record::read_var(var_, {})); }

 private:
  template <class E>
  Var& assign(const E& e, const Place& p) {
    record::write_var(var_, record_as(e, dtype_of<T>, p), p);
    return *this;
  }

  record::Raw var_;
};

template <Operand E>
Var(const E&) -> Var<elem_t<E>, rank_v<E>>;
template <Operand E>
Var(const E&, Place) -> Var<elem_t<E>, rank_v<E>>;

namespace detail {

// A node that grew large over tiles is recorded now; see largest_lazy.
template <class N>
constexpr auto settle(const N& n) {
  if constexpr (N::leaf == Leaf::tile && N::nodes > largest_lazy && !N::weak) {
    return Tile<typename N::elem, N::rank>(record_node(n, {}));
  } else {
    return n;
  }
}

template <ir::OpId Op, class... A>
constexpr auto make(const A&... a) {
  return Expr<Op, decltype(settle(node(a)))...>(settle(node(a))...);
}
template <class T, bool Saturate, class A>
constexpr auto make_cast(const A& a) {
  return Cast<T, Saturate, decltype(settle(node(a)))>(settle(node(a)));
}

}  // namespace detail

template <class D>
template <ElementType U>
auto NodeBase<D>::to() const {
  return detail::make_cast<canonical_t<U>, false>(static_cast<const D&>(*this));
}
// The same bits as another type of the same size; invalid lanes are 0 before.
template <class D>
template <ElementType U>
auto NodeBase<D>::bitcast() const {
  const D& self = static_cast<const D&>(*this);
  static_assert(sizeof(U) == sizeof(elem_t<D>), "bitcast: both element types have the same size");
  return Tile<canonical_t<U>, rank_v<D>>(record::bitcast(record_node(self, {}), dtype_of<U>, {}));
}

// As .to<T>(), but integers (and fp8) that do not fit become the nearest value instead of wrapping.
template <ElementType T, Node E>
constexpr auto saturate(const E& e) {
  return detail::make_cast<canonical_t<T>, true>(e);
}

}  // namespace tileweave
