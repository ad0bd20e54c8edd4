// The element-wise operations: one function object for each row of ir/ops.def, and the C++ operators.
// On nodes they build an expression, on host scalars they compute the op's exact meaning. No op is written by hand
// here.
#pragma once

#include <bit>
#include <cstring>

#include "tileweave/dsl/tile.h"

namespace tileweave {

namespace detail {

// Why operands do not fit an op; each case has its refused overload, so that the first error line says what to do.
enum class Fit : std::uint8_t { good, mix, wants_float, wants_int, wants_number, wants_bool, leaves };

template <ir::OpTypes types, class T>
consteval Fit fit_elem() {
  if constexpr (std::same_as<T, void>) {
    return Fit::mix;
  } else if constexpr (std::same_as<T, AnyElem>) {
    return Fit::good;
  } else if constexpr (types == ir::OpTypes::Num) {
    return NumberElem<T> ? Fit::good : Fit::wants_number;
  } else if constexpr (types == ir::OpTypes::Float || types == ir::OpTypes::Test) {
    return FloatElem<T> ? Fit::good : Fit::wants_float;
  } else if constexpr (types == ir::OpTypes::Int) {
    return IntElem<T> ? Fit::good : Fit::wants_int;
  } else if constexpr (types == ir::OpTypes::Bits) {
    return IntElem<T> || BoolElem<T> ? Fit::good : Fit::wants_int;
  } else {
    return Fit::good;
  }
}

template <class C>
inline constexpr bool is_condition = std::same_as<elem_t<C>, bool> || std::same_as<elem_t<C>, AnyElem>;

template <ir::OpId Op, class... A>
consteval Fit fit() {
  constexpr ir::OpTypes types = op_types(Op);
  if constexpr (join_leaf<node_t<A>...>() == Leaf::mixed) {
    return Fit::leaves;
  } else if constexpr (types == ir::OpTypes::Select) {
    if (!is_condition<std::tuple_element_t<0, std::tuple<A...>>>) return Fit::wants_bool;
    return fit_elem<types, typename Meet<types, node_t<A>...>::type>();
  } else {
    return fit_elem<types, typename Meet<types, node_t<A>...>::type>();
  }
}

template <ir::OpId Op, class... A>
concept Takes = sizeof...(A) == op_arity(Op);
template <ir::OpId Op, class... A>
concept Fits = Takes<Op, A...> && Symbolic<A...> && (fit<Op, A...>() == Fit::good);
template <ir::OpId Op, Fit why, class... A>
concept FitsNot = Takes<Op, A...> && Symbolic<A...> && (fit<Op, A...>() == why);

// --- host scalars
template <class T>
std::uint64_t to_bits(T v) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  return bits;
}
template <class T>
T from_bits(std::uint64_t bits) {
  T v;
  std::memcpy(static_cast<void*>(&v), &bits, sizeof v);
  return v;
}

// The type a host call computes in: C++'s common type; a float op of integers is double, as in <cmath>.
template <ir::OpTypes types, class... T>
consteval auto host_type() {
  using Common = typename Meet<ir::OpTypes::Num, Lit<T>...>::type;
  constexpr bool wants_float = types == ir::OpTypes::Float || types == ir::OpTypes::Test;
  return std::type_identity<std::conditional_t<wants_float && !FloatElem<Common>, double, Common>>{};
}

template <ir::OpId Op, class R, class T, class... A>
R host_call(A... a) {
  static const record::HostLane lane = record::host_lane(Op, dtype_of<T>);
  const std::uint64_t bits[3] = {to_bits(a)...};
  return from_bits<R>(lane(bits[0], bits[1], bits[2]));
}

template <ir::OpId Op, class... A>
constexpr auto host_eval(A... a) {
  using T = typename decltype(host_type<op_types(Op), A...>())::type;
  if constexpr (Op == ir::OpId::cdiv) {  // also a constant expression: grids and block counts
    return [](T x, T y) -> T {
      if (y == 0) return T(0);
      const T q = static_cast<T>(x / y), r = static_cast<T>(x % y);
      return r != 0 && (r < 0) == (y < 0) ? static_cast<T>(q + 1) : q;
    }(static_cast<T>(a)...);
  } else {
    return host_call<Op, result_elem_t<Op, T>, T>(static_cast<T>(a)...);
  }
}
template <class C, class A, class B>
constexpr auto host_where(C c, A a, B b) {
  using T = typename Meet<ir::OpTypes::Num, Lit<A>, Lit<B>>::type;
  return c ? static_cast<T>(a) : static_cast<T>(b);
}

#define TILEWEAVE_MIX "these element types do not mix: convert one side with .to<T>(), e.g. .to<float>()"
#define TILEWEAVE_WANTS_FLOAT "this operation is for floating-point elements: convert with .to<float>()"
#define TILEWEAVE_WANTS_INT "this operation is for integer elements: convert with .to<int>()"
#define TILEWEAVE_WANTS_NUMBER "a bool is no number: use tw::where(condition, a, b), or .to<int>()"
#define TILEWEAVE_WANTS_BOOL "the condition of tw::where is a bool: compare first"
#define TILEWEAVE_LEAVES "a tile and a tensor do not mix: a kernel works on tiles, tensors live outside of it"

// An element-wise op as a function object: callable, and a fusion group of one operation (an epilogue, tw::grad).
template <ir::OpId Op>
struct OpFunction {
  template <class... A>
    requires Fits<Op, A...>
  constexpr auto operator()(const A&... a) const {
    return make<Op>(a...);
  }
  template <class... A>
    requires(Takes<Op, A...> && (HostValue<A> && ...))
  constexpr auto operator()(const A&... a) const {
    if constexpr (Op == ir::OpId::where) {
      return host_where(host_value(a)...);
    } else {
      return host_eval<Op>(host_value(a)...);
    }
  }
  template <class... A>
    requires FitsNot<Op, Fit::mix, A...>
  TILEWEAVE_REFUSED(TILEWEAVE_MIX)
  void operator()(const A&...) const;
  template <class... A>
    requires FitsNot<Op, Fit::wants_float, A...>
  TILEWEAVE_REFUSED(TILEWEAVE_WANTS_FLOAT)
  void operator()(const A&...) const;
  template <class... A>
    requires FitsNot<Op, Fit::wants_int, A...>
  TILEWEAVE_REFUSED(TILEWEAVE_WANTS_INT)
  void operator()(const A&...) const;
  template <class... A>
    requires FitsNot<Op, Fit::wants_number, A...>
  TILEWEAVE_REFUSED(TILEWEAVE_WANTS_NUMBER)
  void operator()(const A&...) const;
  template <class... A>
    requires FitsNot<Op, Fit::wants_bool, A...>
  TILEWEAVE_REFUSED(TILEWEAVE_WANTS_BOOL)
  void operator()(const A&...) const;
  template <class... A>
    requires FitsNot<Op, Fit::leaves, A...>
  TILEWEAVE_REFUSED(TILEWEAVE_LEAVES)
  void operator()(const A&...) const;

  constexpr std::string_view name() const { return ir_name; }
  static constexpr std::string_view ir_name = [] {
    switch (Op) {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  case ir::OpId::id:                                                                \
    return std::string_view(#id);
#include "tileweave/jit/ir/ops.def"
      default:
        return std::string_view();
    }
  }();
};

}  // namespace detail

// tw::exp, tw::maximum, tw::where, tw::gelu, ...: the meaning of each is its row in ir/ops.def.
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  inline constexpr detail::OpFunction<ir::OpId::id> id{};
#include "tileweave/jit/ir/ops.def"

// --- operators
#define TILEWEAVE_OPERATOR(symbol, id)                                      \
  template <class A, class B>                                               \
    requires detail::Fits<ir::OpId::id, A, B>                               \
  constexpr auto operator symbol(const A& a, const B& b) {                  \
    return detail::make<ir::OpId::id>(a, b);                                \
  }                                                                         \
  template <class A, class B>                                               \
    requires detail::FitsNot<ir::OpId::id, detail::Fit::mix, A, B>          \
  TILEWEAVE_REFUSED(TILEWEAVE_MIX)                                          \
  A operator symbol(const A&, const B&);                                    \
  template <class A, class B>                                               \
    requires detail::FitsNot<ir::OpId::id, detail::Fit::wants_int, A, B>    \
  TILEWEAVE_REFUSED(TILEWEAVE_WANTS_INT)                                    \
  A operator symbol(const A&, const B&);                                    \
  template <class A, class B>                                               \
    requires detail::FitsNot<ir::OpId::id, detail::Fit::wants_number, A, B> \
  TILEWEAVE_REFUSED(TILEWEAVE_WANTS_NUMBER)                                 \
  A operator symbol(const A&, const B&);                                    \
  template <class A, class B>                                               \
    requires detail::FitsNot<ir::OpId::id, detail::Fit::leaves, A, B>       \
  TILEWEAVE_REFUSED(TILEWEAVE_LEAVES)                                       \
  A operator symbol(const A&, const B&);

TILEWEAVE_OPERATOR(+, add)
TILEWEAVE_OPERATOR(-, sub)
TILEWEAVE_OPERATOR(*, mul)
TILEWEAVE_OPERATOR(/, div)
TILEWEAVE_OPERATOR(%, rem)
TILEWEAVE_OPERATOR(&, bit_and)
TILEWEAVE_OPERATOR(|, bit_or)
TILEWEAVE_OPERATOR(^, bit_xor)
TILEWEAVE_OPERATOR(<<, shl)
TILEWEAVE_OPERATOR(>>, shr)
TILEWEAVE_OPERATOR(==, eq)
TILEWEAVE_OPERATOR(!=, ne)
TILEWEAVE_OPERATOR(<, lt)
TILEWEAVE_OPERATOR(<=, le)
TILEWEAVE_OPERATOR(>, gt)
TILEWEAVE_OPERATOR(>=, ge)
#undef TILEWEAVE_OPERATOR

template <Node A>
constexpr auto operator+(const A& a) {
  return node(a);
}
template <Node A>
  requires detail::Fits<ir::OpId::neg, A>
constexpr auto operator-(const A& a) {
  return detail::make<ir::OpId::neg>(a);
}
template <Node A>
  requires detail::Fits<ir::OpId::bit_not, A>
constexpr auto operator~(const A& a) {
  return detail::make<ir::OpId::bit_not>(a);
}
template <Node A>
  requires detail::is_condition<A>
constexpr auto operator!(const A& a) {
  return detail::make<ir::OpId::bit_not>(a);
}

#define TILEWEAVE_NO_LOGIC "&& and || do not work on symbolic values: use & and |"
template <class A, class B>
  requires Symbolic<A, B>
TILEWEAVE_REFUSED(TILEWEAVE_NO_LOGIC)
bool operator&&(const A&, const B&);
template <class A, class B>
  requires Symbolic<A, B>
TILEWEAVE_REFUSED(TILEWEAVE_NO_LOGIC)
bool operator||(const A&, const B&);

// The smallest power of two that is not less than n (1 for n <= 1).
template <std::integral A>
constexpr A next_pow2(A n) {
  A r = 1;
  while (r < n) r = static_cast<A>(r * 2);
  return r;
}

// --- a fusion group's syntax tree applied to arguments
template <ir::OpId Op, class... N>
template <class S>
constexpr auto Expr<Op, N...>::bind(const S& arguments) const {
  return std::apply([&](const auto&... n) { return detail::OpFunction<Op>{}(n.bind(arguments)...); }, operands_);
}
template <class T, bool Saturate, class N>
template <class S>
constexpr auto Cast<T, Saturate, N>::bind(const S& arguments) const {
  const auto x = operand_.bind(arguments);
  if constexpr (Node<decltype(x)>) {
    return detail::make_cast<T, Saturate>(x);
  } else {
    using X = std::remove_cvref_t<decltype(x)>;
    return detail::from_bits<T>(record::host_convert(detail::to_bits(x), dtype_of<X>, dtype_of<T>, Saturate));
  }
}
template <class N, class V>
template <class S>
constexpr auto Like<N, V>::bind(const S& arguments) const {
  const auto x = like_.bind(arguments);
  if constexpr (Node<decltype(x)>) {
    return Like<node_t<decltype(x)>, V>(node(x), value_);
  } else {
    return static_cast<std::remove_cvref_t<decltype(x)>>(value_.value);
  }
}

}  // namespace tileweave
