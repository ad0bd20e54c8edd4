// Expression nodes: literals, placeholders and operations, held by value; the C++ type is the syntax tree.
// Between the operators of math.h, which build nodes, and record.h, where a consuming statement writes them down.
#pragma once

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tileweave/dsl/const.h"
#include "tileweave/dsl/element.h"
#include "tileweave/dsl/record.h"

namespace tileweave {

struct NodeTag {};
template <class X>
concept Node = std::derived_from<std::remove_cvref_t<X>, NodeTag>;

// The rank of a tensor in an expression: known at run time only.
inline constexpr int any_rank = -1;

// What the leaves of a node are: tiles and tensors never meet in one expression.
enum class Leaf : std::uint8_t { none, placeholder, tile, tensor, mixed };
constexpr Leaf join(Leaf a, Leaf b) {
  if (a == b || b == Leaf::none) return a;
  if (a == Leaf::none) return b;
  if (a == Leaf::placeholder) return b;
  return b == Leaf::placeholder ? a : Leaf::mixed;
}

template <class T, int R>
class Tile;
template <class T, int R>
class Var;
template <class T>
class Tensor;
template <class T>
using Scalar = Tile<T, 0>;

namespace detail {
template <class X>
struct HostValueOf {
  static constexpr bool known = false;
};
template <class X>
  requires(std::is_arithmetic_v<X> || NarrowFloatType<X>)
struct HostValueOf<X> {
  static constexpr bool known = true;
  using type = canonical_t<X>;
};
template <class X>
  requires(std::is_arithmetic_v<X> || NarrowFloatType<X>)
struct HostValueOf<Const<X>> : HostValueOf<X> {};
}  // namespace detail

// A number of the C++ program: arithmetic types, the narrow floats, and tw::Const of them.
template <class X>
concept HostValue = detail::HostValueOf<std::remove_cvref_t<X>>::known;
template <HostValue X>
using host_value_t = typename detail::HostValueOf<std::remove_cvref_t<X>>::type;
template <HostValue X>
constexpr host_value_t<X> host_value(const X& x) {
  return static_cast<host_value_t<X>>(x);
}

template <class X>
concept Operand = Node<X> || HostValue<X>;
template <class... X>
concept Symbolic = (Operand<X> && ...) && (Node<X> || ...);

#define TILEWEAVE_IMMUTABLE "a tile is immutable: declare the value as tw::Var to assign to it"
#define TILEWEAVE_NO_TRUTH \
  "a symbolic value has no C++ truth value: use tw::where for each lane, tw::if_ or tw::while_ for control flow"

// What every node has. D is the node's class.
template <class D>
struct NodeBase : NodeTag {
  template <ElementType U>
  auto to() const;  // defined in tile.h
  template <ElementType U>
  auto bitcast() const;
  TILEWEAVE_REFUSED(TILEWEAVE_NO_TRUTH) explicit operator bool() const;
};

// A literal: it has no element type of its own until it meets a tile.
template <class V>
struct Lit : NodeTag {
  using elem = V;
  static constexpr int rank = 0, nodes = 1;
  static constexpr bool weak = true;
  static constexpr Leaf leaf = Leaf::none;
  V value;
  constexpr explicit Lit(V v) : value(v) {}
  template <class C>
  record::Raw record(C& context, Dtype want) const {
    return context.literal(record::literal(value), want);
  }
  template <class S>
  constexpr V bind(const S&) const {
    return value;
  }
  template <class Visit>
  void leaves(Visit&& visit, Dtype want) const {
    visit(*this, want);
  }
};

// Argument I of a fusion group that is not applied yet.
template <int I>
struct Arg : NodeBase<Arg<I>> {
  using elem = AnyElem;
  static constexpr int rank = 0, nodes = 1;
  static constexpr bool weak = false;
  static constexpr Leaf leaf = Leaf::placeholder;
  template <class S>
  constexpr auto bind(const S& arguments) const {
    return std::get<static_cast<std::size_t>(I)>(arguments);
  }
};

// --- from an operand to the node that stands for it
namespace detail {
template <class X>
struct NodeOf;
template <HostValue X>
struct NodeOf<X> {
  using type = Lit<host_value_t<X>>;
};
template <Node X>
struct NodeOf<X> {
  using type = X;
};
template <class T, int R>
struct NodeOf<Var<T, R>> {
  using type = Tile<T, R>;
};
// Expressions over tiles that grew past this many nodes are recorded at once, so that `auto` values used several times
// cost what they are, not what their tree is.
inline constexpr int largest_lazy = 24;
}  // namespace detail

template <class X>
using node_t = typename detail::NodeOf<std::remove_cvref_t<X>>::type;
// A Var gives the value it has now.
template <class X>
constexpr node_t<X> node(const X& x) {
  if constexpr (HostValue<X>) {
    return node_t<X>(host_value(x));
  } else {
    return node_t<X>(x);
  }
}
template <class X>
using elem_t = typename node_t<X>::elem;
template <class X>
inline constexpr int rank_v = node_t<X>::rank;
template <class X>
inline constexpr bool weak_v = node_t<X>::weak;
template <class X>
inline constexpr Leaf leaf_v = node_t<X>::leaf;

// The element type in which A and B meet; void where they do not mix.
template <class A, class B>
using meet_t = typename decltype(detail::meet<elem_t<A>, weak_v<A>, elem_t<B>, weak_v<B>>())::type;
// Whether E can stand where a tile of T is wanted.
template <class E, class T>
concept ConvertsTo =
    Operand<E> && std::same_as<typename decltype(detail::meet<T, false, elem_t<E>, weak_v<E>>())::type, T>;

// Records nodes over tiles; `place` is the consuming statement's.
struct TileContext {
  Place place;
  record::Raw literal(const record::Literal& v, Dtype want) { return record::constant(v, want, place); }
  record::Raw leaf(const record::Raw& tile) { return tile; }
};

// What a node's class says of its element type when nobody wants another.
template <class N>
inline constexpr Dtype own_dtype = dtype_of<typename N::elem>;

template <class E>
record::Raw record_as(const E& e, Dtype want, const Place& p) {
  TileContext context{p};
  return node(e).record(context, want);
}
template <class E>
record::Raw record_node(const E& e, const Place& p) {
  return record_as(e, own_dtype<node_t<E>>, p);
}

namespace detail {

template <class... N>
consteval int join_rank() {
  const bool any = ((N::rank == any_rank) || ...);
  return any ? any_rank : std::max({N::rank...});
}
template <class... N>
consteval Leaf join_leaf() {
  Leaf l = Leaf::none;
  ((l = join(l, N::leaf)), ...);
  return l;
}

// The element type in which the operands of an op with these type rules compute.
template <ir::OpTypes types, class... N>
struct Meet;
template <ir::OpTypes types, class A>
struct Meet<types, A> {
  using type = typename A::elem;
  static constexpr bool weak = A::weak;
};
template <ir::OpTypes types, class A, class B>
struct Meet<types, A, B> {
  using type = typename decltype(meet<typename A::elem, A::weak, typename B::elem, B::weak>())::type;
  static constexpr bool weak = A::weak && B::weak;
};
template <ir::OpTypes types, class A, class B, class C>
struct Meet<types, A, B, C> {
  using AB = Meet<types, A, B>;
  using type = typename decltype(meet<typename AB::type, AB::weak, typename C::elem, C::weak>())::type;
  static constexpr bool weak = AB::weak && C::weak;
};
template <class C, class A, class B>
struct Meet<ir::OpTypes::Select, C, A, B> : Meet<ir::OpTypes::Num, A, B> {};

consteval ir::OpTypes op_types(ir::OpId id) {
  switch (id) {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  case ir::OpId::id:                                                                \
    return ir::OpTypes::types;
#include "tileweave/jit/ir/ops.def"
    default:
      return ir::OpTypes::structural;
  }
}
consteval int op_arity(ir::OpId id) {
  switch (id) {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  case ir::OpId::id:                                                                \
    return arity;
#include "tileweave/jit/ir/ops.def"
    default:
      return -1;
  }
}

template <ir::OpId Op, class Computed>
using result_elem_t =
    std::conditional_t<op_types(Op) == ir::OpTypes::Compare || op_types(Op) == ir::OpTypes::Test, bool, Computed>;

}  // namespace detail

// An element-wise operation on nodes.
template <ir::OpId Op, class... N>
class Expr : public NodeBase<Expr<Op, N...>> {
 public:
  static constexpr ir::OpId op = Op;
  static constexpr ir::OpTypes types = detail::op_types(Op);
  using computed = typename detail::Meet<types, N...>::type;
  using elem = detail::result_elem_t<Op, computed>;
  static constexpr int rank = detail::join_rank<N...>(), nodes = 1 + (N::nodes + ...);
  static constexpr bool operands_weak = detail::Meet<types, N...>::weak;
  static constexpr bool weak = operands_weak && types != ir::OpTypes::Compare && types != ir::OpTypes::Test;
  static constexpr Leaf leaf = detail::join_leaf<N...>();

  constexpr explicit Expr(N... n) : operands_(std::move(n)...) {}
  Expr(const Expr&) = default;
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE) Expr& operator=(const Expr&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Expr& operator=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Expr& operator+=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Expr& operator-=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Expr& operator*=(const U&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Expr& operator/=(const U&);

  template <std::size_t K>
  constexpr const auto& operand() const {
    return std::get<K>(operands_);
  }
  template <class C>
  record::Raw record(C& context, Dtype want) const {
    const Dtype in = weak ? want : dtype_of<computed>;
    const record::Raw r = record_op(context, in, std::index_sequence_for<N...>{});
    if constexpr (std::same_as<elem, bool> || weak) {
      return r;
    } else {
      return want == in ? r : record::convert(r, want, false, context.place);
    }
  }
  template <class S>
  constexpr auto bind(const S& arguments) const;  // defined in math.h
  // Calls visit(leaf, element type wanted of it) in the order in which record() meets the leaves.
  template <class Visit>
  void leaves(Visit&& visit, Dtype want) const {
    visit_leaves(visit, weak ? want : dtype_of<computed>, std::index_sequence_for<N...>{});
  }

 private:
  template <class Visit, std::size_t... K>
  void visit_leaves(Visit& visit, Dtype in, std::index_sequence<K...>) const {
    (operand<K>().leaves(visit, select_condition<K> ? Dtype::boolean : in), ...);
  }
  template <class C, std::size_t... K>
  record::Raw record_op(C& context, Dtype in, std::index_sequence<K...>) const {
    // Braces: the operands are recorded from left to right.
    const record::Raw r[] = {operand<K>().record(context, select_condition<K> ? Dtype::boolean : in)...};
    return record::elementwise(Op, r, context.place);
  }
  template <std::size_t K>
  static constexpr bool select_condition = K == 0 && types == ir::OpTypes::Select;

  std::tuple<N...> operands_;
};

// A conversion to another element type.
template <class T, bool Saturate, class N>
class Cast : public NodeBase<Cast<T, Saturate, N>> {
 public:
  using elem = T;
  static constexpr int rank = N::rank, nodes = 1 + N::nodes;
  static constexpr bool weak = false;
  static constexpr Leaf leaf = N::leaf;

  constexpr explicit Cast(N n) : operand_(std::move(n)) {}
  Cast(const Cast&) = default;
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE) Cast& operator=(const Cast&);
  template <class U>
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE)
  Cast& operator=(const U&);

  constexpr const N& operand() const { return operand_; }
  template <class C>
  record::Raw record(C& context, Dtype want) const {
    const Dtype from = own_dtype<N>;
    record::Raw r = operand_.record(context, from);
    if (from != dtype_of<T>) r = record::convert(r, dtype_of<T>, Saturate, context.place);
    return want == dtype_of<T> ? r : record::convert(r, want, false, context.place);
  }
  template <class S>
  constexpr auto bind(const S& arguments) const;
  template <class Visit>
  void leaves(Visit&& visit, Dtype) const {
    operand_.leaves(visit, own_dtype<N>);
  }

 private:
  N operand_;
};

// A number in every lane of another node, with that node's element type, extents and validity.
template <class N, class V>
class Like : public NodeBase<Like<N, V>> {
 public:
  using elem = typename N::elem;
  static constexpr int rank = N::rank, nodes = 2 + N::nodes;
  static constexpr bool weak = false;
  static constexpr Leaf leaf = N::leaf;

  constexpr Like(N like, Lit<V> value) : like_(std::move(like)), value_(value) {}
  Like(const Like&) = default;
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE) Like& operator=(const Like&);

  template <class C>
  record::Raw record(C& context, Dtype want) const {
    const record::Raw like = like_.record(context, own_dtype<N>);
    return record::fill_like(like, value_.record(context, want), context.place);
  }
  template <class S>
  constexpr auto bind(const S& arguments) const;
  template <class Visit>
  void leaves(Visit&& visit, Dtype want) const {
    like_.leaves(visit, own_dtype<N>);
    value_.leaves(visit, want);
  }

 private:
  N like_;
  Lit<V> value_;
};

}  // namespace tileweave
