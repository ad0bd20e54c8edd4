// tw::grad: the derivative of a fusion group, itself a fusion group; reverse mode over the group's syntax tree.
// The rule of each op is the gradient column of ir/ops.def; 0 and 1 are types here, so that they fold away.
#pragma once

#include "tileweave/dsl/fusion_group.h"

namespace tileweave {

namespace detail {

struct Zero {};
struct One {};

template <class X>
inline constexpr bool is_zero = std::same_as<X, Zero>;
template <class X>
inline constexpr bool is_one = std::same_as<X, One>;

constexpr int operator-(One) { return -1; }
template <class X>
constexpr X operator*(One, const X& x) {
  return x;
}
template <class X>
constexpr auto operator/(One, const X& x) {
  return 1 / x;
}

// A literal of the tree as the number it is.
template <class X>
constexpr auto plain(const X& x) {
  if constexpr (is_one<X>) {
    return 1;
  } else {
    return x;
  }
}
template <class V>
constexpr V plain(const Lit<V>& x) {
  return x.value;
}

template <class A, class B>
constexpr auto plus(const A& a, const B& b) {
  if constexpr (is_zero<A>) {
    return b;
  } else if constexpr (is_zero<B>) {
    return a;
  } else {
    return plain(a) + plain(b);
  }
}

// What flows where `condition` holds; elsewhere nothing does, and nothing behind it is looked at.
template <class C, class V>
struct Guarded {
  C condition;
  V value;
};
// `where` of the gradient column: branches may be One, and Zero for a guard.
struct GradientWhere {
  template <class C, class A, class B>
  constexpr auto operator()(const C& c, const A& a, const B& b) const {
    if constexpr (is_zero<B>) {
      return Guarded<C, A>{c, a};
    } else if constexpr (is_zero<A>) {
      const auto otherwise = !c;
      return Guarded<std::remove_const_t<decltype(otherwise)>, B>{otherwise, b};
    } else {
      return OpFunction<ir::OpId::where>{}(c, plain(a), plain(b));
    }
  }
};
// `d(...)` of the gradient column: what flows to each operand.
struct Flows {
  template <class... X>
  constexpr auto operator()(const X&... x) const {
    return std::make_tuple(x...);
  }
};

template <ir::OpId Op>
struct Gradient;
// A row's d(...) with the incoming gradient g, the result y and the operands a, b, c.
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text)                                    \
  template <>                                                                                                          \
  struct Gradient<ir::OpId::id> {                                                                                      \
    template <class G, class Y, class A, class B = Zero, class C = Zero>                                               \
    static constexpr auto flows([[maybe_unused]] const G& g, [[maybe_unused]] const Y& y, [[maybe_unused]] const A& a, \
                                [[maybe_unused]] const B& b = {}, [[maybe_unused]] const C& c = {}) {                  \
      [[maybe_unused]] constexpr GradientWhere where{};                                                                \
      [[maybe_unused]] constexpr Zero zero{};                                                                          \
      constexpr Flows d{};                                                                                             \
      return gradient;                                                                                                 \
    }                                                                                                                  \
  };
#include "tileweave/jit/ir/ops.def"

// Sum over all paths from `tree` to argument I of what flows there when g flows into the tree.
template <int I>
struct Adjoint {
  template <class V, class G>
  static constexpr Zero of(const Lit<V>&, const G&) {
    return {};
  }
  template <int J, class G>
  static constexpr auto of(const Arg<J>&, const G& g) {
    if constexpr (I == J) {
      return g;
    } else {
      return Zero{};
    }
  }
  template <class T, bool Saturate, class N, class G>
  static constexpr auto of(const Cast<T, Saturate, N>& e, const G& g) {
    if constexpr (FloatElem<T>) {
      return of(e.operand(), g);
    } else {
      return Zero{};
    }
  }
  template <class N, class V, class G>
  static constexpr Zero of(const Like<N, V>&, const G&) {
    return {};
  }
  template <ir::OpId Op, class... N, class G>
  static constexpr auto of(const Expr<Op, N...>& e, const G& g) {
    return through(e, g, std::index_sequence_for<N...>{});
  }
  // A decorated group within the tree (decorated.h) knows its own derivatives.
  template <class N, class G>
    requires requires(const N& n, const G& g) { n.template backward<Adjoint>(g); }
  static constexpr auto of(const N& n, const G& g) {
    return n.template backward<Adjoint>(g);
  }

  template <class N, class C, class V>
  static constexpr auto of_flow(const N& n, const Guarded<C, V>& g) {
    const auto inner = of_flow(n, g.value);
    if constexpr (is_zero<std::remove_const_t<decltype(inner)>>) {
      return Zero{};
    } else {
      return OpFunction<ir::OpId::where>{}(g.condition, plain(inner), 0);
    }
  }
  template <class N, class G>
  static constexpr auto of_flow(const N& n, const G& g) {
    if constexpr (is_zero<G>) {
      return Zero{};
    } else {
      return of(n, g);
    }
  }
  template <class A>
  static constexpr auto sum(const A& a) {
    return a;
  }
  template <class A, class B, class... C>
  static constexpr auto sum(const A& a, const B& b, const C&... c) {
    return sum(plus(a, b), c...);
  }

 private:
  template <ir::OpId Op, class... N, class G, std::size_t... K>
  static constexpr auto through(const Expr<Op, N...>& e, const G& g, std::index_sequence<K...>) {
    const auto flows = Gradient<Op>::flows(g, e, plain(e.template operand<K>())...);
    return sum(of_flow(e.template operand<K>(), std::get<K>(flows))...);
  }
};

// The body of the derivative by argument I of group G.
template <int I, class G>
struct GradientBody {
  template <class... A>
    requires(I < sizeof...(A)) && std::is_invocable_v<G, A...>
  constexpr auto operator()(const A&... a) const {
    const auto d = derivative(std::index_sequence_for<A...>{});
    using D = std::remove_cvref_t<decltype(d)>;
    if constexpr (is_zero<D>) {
      return result<A...>(0);
    } else if constexpr (is_one<D>) {
      return result<A...>(1);
    } else if constexpr (Node<D>) {
      return result<A...>(d.bind(std::tuple<A...>(a...)));
    } else {
      return result<A...>(d);
    }
  }

 private:
  template <std::size_t... K>
  static constexpr auto derivative(std::index_sequence<K...>) {
    const auto tree = G{}(Arg<static_cast<int>(K)>{}...);
    return Adjoint<I>::of(node(tree), One{});
  }
  // On host scalars the derivative has the type the group itself gives.
  template <class... A, class R>
  static constexpr auto result(const R& r) {
    if constexpr (HostValue<R> && (HostValue<A> && ...)) {
      return static_cast<std::remove_cvref_t<decltype(G{}(std::declval<A>()...))>>(r);
    } else {
      return r;
    }
  }
};

}  // namespace detail

// The derivative of a group by its argument I, a group of the same arguments. Where the derivative does not exist it is
// what the op's row in ir/ops.def says (abs at 0: 1; maximum of equal arguments: half each).
template <int I = 0, Group G>
constexpr auto grad(const G&) {
  return FusionGroup<detail::GradientBody<I, std::remove_cvref_t<G>>>("grad");
}

}  // namespace tileweave
