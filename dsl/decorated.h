// Decorated: the fusion group that `tileweave fuse` makes of a plain C++ function; the headers it writes include this.
// Like every group it is applied to host scalars, tiles and tensors, serves as an epilogue, and has derivatives.
#pragma once

#include "tileweave/dsl/gradient.h"
#include "tileweave/dsl/tensor_expr.h"
#include "tileweave/dsl/trace.h"

namespace tileweave {

template <class... D>
class Decorated;
template <class... D>
inline constexpr bool is_fusion_group<Decorated<D...>> = true;

namespace trace {

// A description of one group for certain parameter types: `type` is R(P...) or Results<R...>(P...), graph() its graph.
// B is a body of a generated header.
template <class B>
struct Traced {
  using type = typename B::type;
  static constexpr std::string_view name = B::name;
  static const Graph& graph() { return graph_of<B>(); }
  // Several results, by the names of the user's struct where there is one.
  template <class... A>
  static constexpr auto pack(const A&... a) {
    if constexpr (requires { B::fields(a...); }) {
      return B::fields(a...);
    } else {
      return std::tuple<A...>(a...);
    }
  }
};

template <class R, std::size_t n, class... P>
struct Repeated;
template <class... R, std::size_t n, class... P>
struct Repeated<std::tuple<R...>, n, P...> {
  // Each result's type, n times in a row.
  template <class X, std::size_t... K>
  static auto times(std::index_sequence<K...>) -> std::tuple<std::enable_if_t<(K < n), X>...>;
  using all = decltype(std::tuple_cat(times<R>(std::make_index_sequence<n>{})...));
  template <class T>
  struct Type;
  template <class... X>
  struct Type<std::tuple<X...>> {
    using type = Results<X...>(P...);
  };
  using type = typename Type<all>::type;
};

// The derivatives of D by its parameters I..., after its value where `with_value`.
template <class D, bool with_value, int... I>
struct Derivative {
  template <class F>
  struct TypeOf;
  template <class R, class... P>
  struct TypeOf<R(P...)> {
    using S = Signature<R(P...)>;
    using type = typename Repeated<typename S::results, sizeof...(I) + (with_value ? 1 : 0), P...>::type;
  };
  using type = typename TypeOf<typename D::type>::type;
  static constexpr std::string_view name = D::name;
  static const Graph& graph() {
    static const Graph g = [] {
      const std::array<int, sizeof...(I)> by{I...};
      return differentiate(D::graph(), with_value, by);
    }();
    return g;
  }
  template <class... A>
  static constexpr auto pack(const A&... a) {
    return std::tuple<A...>(a...);
  }
};

template <class D>
using SignatureOf = Signature<typename D::type>;
template <class D, std::size_t K>
using parameter_t = std::tuple_element_t<K, typename SignatureOf<D>::parameters>;
template <class D, std::size_t K>
using result_t = std::tuple_element_t<K, typename SignatureOf<D>::results>;

}  // namespace trace

namespace detail {

// --- which parameters take which arguments: 0 not at all, 1 widened, 2 as it is
template <class P, class A>
consteval int fit_parameter() {
  using E = elem_t<A>;
  if constexpr (std::same_as<E, AnyElem> || std::same_as<E, P>) {
    return 2;
  } else if constexpr (weak_v<A>) {
    return takes_literal<P, E> ? 2 : 0;
  } else if constexpr (FloatElem<E> && is_narrow_float(dtype_of<E>) && FloatElem<P>) {
    return std::same_as<P, float> ? 2 : 1;
  } else if constexpr (IntElem<E> && IntElem<P>) {
    return std::same_as<typename decltype(meet_integers<E, P>())::type, P> ? 1 : 0;
  } else {
    return 0;
  }
}
template <class D, class... A>
consteval int fit_all() {
  if constexpr (sizeof...(A) != trace::SignatureOf<D>::parameter_count) {
    return -1;
  } else {
    return []<std::size_t... K>(std::index_sequence<K...>) {
      if constexpr ((HostValue<A> && ...)) {  // C++'s conversions; the best fit counts
        const bool exact = (std::same_as<host_value_t<A>, trace::parameter_t<D, K>> && ...);
        const bool narrow = ((std::same_as<host_value_t<A>, trace::parameter_t<D, K>> ||
                              (NarrowFloatType<host_value_t<A>> && std::same_as<trace::parameter_t<D, K>, float>)) &&
                             ...);
        return exact || narrow ? 2 : 1;
      } else {
        return std::min({2, fit_parameter<trace::parameter_t<D, K>, A>()...});
      }
    }(std::index_sequence_for<A...>{});
  }
}
// The overload for these arguments: the first that fits best. -1: wrong number of arguments, -2: wrong types.
template <class... D>
struct Overloads {
  template <class... A>
  static consteval int choose() {
    const int fits[] = {fit_all<D, A...>()...};
    int best = -1;
    for (int k = 0; k < static_cast<int>(sizeof...(D)); ++k) {
      if (fits[k] > 0 && (best < 0 || fits[k] > fits[best])) best = k;
    }
    if (best >= 0) return best;
    for (const int f : fits) {
      if (f == 0) return -2;
    }
    return -1;
  }
};

// A float function applied to narrow floats, all of one type, computes in float and rounds once to that type.
template <class D, class... A>
consteval auto narrow_type() {
  return []<std::size_t... K>(std::index_sequence<K...>) {
    constexpr auto one = []<std::size_t J, class X>() {
      if constexpr (!FloatElem<trace::parameter_t<D, J>> || (weak_v<X> && !HostValue<X>)) {
        return std::type_identity<AnyElem>{};
      } else if constexpr (HostValue<X> && !(HostValue<A> && ...)) {
        return std::type_identity<AnyElem>{};  // a literal beside tiles
      } else {
        return std::type_identity<elem_t<X>>{};
      }
    };
    constexpr auto join = []<class X, class Y>(std::type_identity<X>, std::type_identity<Y>) {
      if constexpr (std::same_as<X, AnyElem>) {
        return std::type_identity<Y>{};
      } else if constexpr (std::same_as<Y, AnyElem> || std::same_as<X, Y>) {
        return std::type_identity<X>{};
      } else {
        return std::type_identity<float>{};
      }
    };
    constexpr auto fold = [join]<class F, class... R>(auto self, F first, R... rest) {
      if constexpr (sizeof...(R) == 0) {
        return first;
      } else {
        return join(first, self(self, rest...));
      }
    };
    return fold(fold, std::type_identity<AnyElem>{}, one.template operator()<K, A>()...);
  }(std::index_sequence_for<A...>{});
}
template <class D, std::size_t K, class... A>
consteval auto applied_elem() {
  using R = trace::result_t<D, K>;
  using X = typename decltype(narrow_type<D, A...>())::type;
  if constexpr (std::same_as<R, float> && NarrowFloatType<X>) {
    return std::type_identity<X>{};
  } else {
    return std::type_identity<R>{};
  }
}
template <class D, std::size_t K, class... A>
using applied_elem_t = typename decltype(applied_elem<D, K, A...>())::type;

}  // namespace detail

// Result K of group D applied to tensors: a node like Expr, recorded as the graph of D.
template <class D, std::size_t K, class T, class... N>
class Applied : public NodeBase<Applied<D, K, T, N...>> {
 public:
  using elem = T;
  static constexpr int rank = detail::join_rank<N...>(), nodes = 1 + (N::nodes + ...);
  static constexpr bool weak = false;
  static constexpr Leaf leaf = detail::join_leaf<N...>();

  constexpr explicit Applied(N... n) : operands_(std::move(n)...) {}
  Applied(const Applied&) = default;
  TILEWEAVE_REFUSED(TILEWEAVE_IMMUTABLE) Applied& operator=(const Applied&);

  template <class C>
  record::Raw record(C& context, Dtype want) const {
    return record_with(context, want, std::index_sequence_for<N...>{});
  }
  template <class S>
  constexpr const Applied& bind(const S&) const {
    return *this;
  }
  template <class Visit>
  void leaves(Visit&& visit, Dtype) const {
    visit_with(visit, std::index_sequence_for<N...>{});
  }

 private:
  template <class C, std::size_t... J>
  record::Raw record_with(C& context, Dtype want, std::index_sequence<J...>) const {
    const record::Raw r[] = {std::get<J>(operands_).record(context, dtype_of<trace::parameter_t<D, J>>)...};
    record::Raw out = context.graph(D::graph(), r)[K];
    if constexpr (!std::same_as<T, trace::result_t<D, K>>)
      out = record::convert(out, dtype_of<T>, false, context.place);
    return want == dtype_of<T> ? out : record::convert(out, want, false, context.place);
  }
  template <class Visit, std::size_t... J>
  void visit_with(Visit& visit, std::index_sequence<J...>) const {
    (std::get<J>(operands_).leaves(visit, dtype_of<trace::parameter_t<D, J>>), ...);
  }

  std::tuple<N...> operands_;
};

namespace expression {
template <class D, std::size_t K, class T, class... N>
struct LoopsIn<Applied<D, K, T, N...>> {
  static bool value() { return !D::graph().loops.empty() || (LoopsIn<N>::value() || ...); }
};
}  // namespace expression

// Result K of a decorated group inside of another group's syntax tree: applied once the tree meets its arguments.
template <class G, std::size_t K, class... N>
class Deferred : public NodeBase<Deferred<G, K, N...>> {
 public:
  using elem = AnyElem;
  static constexpr int rank = 0, nodes = 1 + (N::nodes + ...);
  static constexpr bool weak = false;
  static constexpr Leaf leaf = Leaf::placeholder;

  constexpr explicit Deferred(N... n) : operands_(std::move(n)...) {}
  template <std::size_t J>
  constexpr const auto& operand() const {
    return std::get<J>(operands_);
  }
  template <class S>
  constexpr auto bind(const S& arguments) const {
    return std::apply([&](const auto&... n) { return std::get<K>(G::apply(n.bind(arguments)...)); }, operands_);
  }
  // What reaches an argument of the tree when `flow` flows in here: over each operand, times the group's derivative by
  // it.
  template <class Adjoint, class Flow>
  constexpr auto backward(const Flow& flow) const {
    return [&]<std::size_t... J>(std::index_sequence<J...>) {
      return Adjoint::sum(through<Adjoint, J>(flow)...);
    }(std::index_sequence_for<N...>{});
  }

 private:
  template <class Adjoint, std::size_t J, class Flow>
  constexpr auto through(const Flow& flow) const {
    if constexpr (!G::template takes_float<J>) {
      return detail::Zero{};
    } else {
      using By = decltype(grad<static_cast<int>(J)>(std::declval<G>()));
      const auto slope = std::apply([](const auto&... n) { return Deferred<By, K, N...>(n...); }, operands_);
      return Adjoint::of_flow(std::get<J>(operands_), detail::plain(flow * slope));
    }
  }

  std::tuple<N...> operands_;
};

// A fusion group made from a decorated function; D... are its overloads.
template <class... D>
class Decorated {
  using Overloads = detail::Overloads<D...>;
  template <int k>
  using Overload = std::tuple_element_t<static_cast<std::size_t>(k), std::tuple<D...>>;

 public:
  static constexpr std::size_t parameter_count = trace::SignatureOf<Overload<0>>::parameter_count;
  static constexpr std::size_t result_count = trace::SignatureOf<Overload<0>>::result_count;
  template <std::size_t J>
  static constexpr bool takes_float = (FloatElem<trace::parameter_t<D, J>> || ...);

  template <class... A>
    requires((Operand<A> && ...) && Overloads::template choose<A...>() >= 0)
  auto operator()(const A&... a) const {
    return std::apply(
        [](const auto&... r) {
          if constexpr (sizeof...(r) == 1) {
            return (r, ...);
          } else {
            return Overload<Overloads::template choose<A...>()>::pack(r...);
          }
        },
        apply(a...));
  }
  template <class... A>
    requires((Operand<A> && ...) && Overloads::template choose<A...>() == -1)
  TILEWEAVE_REFUSED("the fusion group takes another number of arguments")
  void operator()(const A&...) const;
  template <class... A>
    requires((Operand<A> && ...) && Overloads::template choose<A...>() == -2)
  TILEWEAVE_REFUSED("the decorated function's parameters have other element types: convert the argument with .to<T>()")
  void operator()(const A&...) const;

  constexpr std::string_view name() const { return Overload<0>::name; }

  // The results as a tuple.
  template <class... A>
  static auto apply(const A&... a) {
    using Chosen = Overload<Overloads::template choose<A...>()>;
    constexpr Leaf leaf = detail::join_leaf<node_t<A>...>();
    static_assert(leaf != Leaf::mixed, TILEWEAVE_LEAVES);
    constexpr auto results = std::make_index_sequence<trace::SignatureOf<Chosen>::result_count>{};
    if constexpr ((HostValue<A> && ...)) {
      return on_host<Chosen>(results, std::index_sequence_for<A...>{}, a...);
    } else if constexpr (leaf == Leaf::placeholder) {
      return deferred(results, a...);
    } else if constexpr (leaf == Leaf::tile) {
      return on_tiles<Chosen>(results, std::index_sequence_for<A...>{}, a...);
    } else {
      return on_tensors<Chosen>(results, a...);
    }
  }

 private:
  template <class C, std::size_t... K, std::size_t... J, class... A>
  static auto on_host(std::index_sequence<K...>, std::index_sequence<J...>, const A&... a) {
    const std::uint64_t bits[] = {record::host_convert(detail::to_bits(host_value(a)), dtype_of<host_value_t<A>>,
                                                       dtype_of<trace::parameter_t<C, J>>, false)...};
    const std::vector<std::uint64_t> r = trace::evaluate(C::graph(), bits);
    return std::tuple<detail::applied_elem_t<C, K, A...>...>(
        detail::from_bits<detail::applied_elem_t<C, K, A...>>(record::host_convert(
            r[K], dtype_of<trace::result_t<C, K>>, dtype_of<detail::applied_elem_t<C, K, A...>>, false))...);
  }
  template <std::size_t... K, class... A>
  static auto deferred(std::index_sequence<K...>, const A&... a) {
    return std::tuple<Deferred<Decorated, K, node_t<A>...>...>(Deferred<Decorated, K, node_t<A>...>(node(a)...)...);
  }
  template <class C, std::size_t... K, std::size_t... J, class... A>
  static auto on_tiles(std::index_sequence<K...>, std::index_sequence<J...>, const A&... a) {
    const Place p;
    const record::Raw arguments[] = {record_as(a, dtype_of<trace::parameter_t<C, J>>, p)...};
    const std::vector<record::Raw> r = trace::record_graph(C::graph(), arguments, p);
    constexpr int rank = detail::join_rank<node_t<A>...>();
    return std::tuple<Tile<detail::applied_elem_t<C, K, A...>, rank>...>(Tile<detail::applied_elem_t<C, K, A...>, rank>(
        dtype_of<detail::applied_elem_t<C, K, A...>> == dtype_of<trace::result_t<C, K>>
            ? r[K]
            : record::convert(r[K], dtype_of<detail::applied_elem_t<C, K, A...>>, false, p))...);
  }
  template <class C, std::size_t... K, class... A>
  static auto on_tensors(std::index_sequence<K...>, const A&... a) {
    return std::tuple<Applied<C, K, detail::applied_elem_t<C, K, A...>, node_t<A>...>...>(
        Applied<C, K, detail::applied_elem_t<C, K, A...>, node_t<A>...>(node(a)...)...);
  }
};

namespace detail {

// The overloads that have derivatives by parameters I...: those and the results are floating-point numbers.
template <class D, int... I>
inline constexpr bool is_differentiable = []<class... R>(std::type_identity<std::tuple<R...>>) {
  return (FloatElem<R> && ...) && (FloatElem<trace::parameter_t<D, static_cast<std::size_t>(I)>> && ...);
}(std::type_identity<typename trace::SignatureOf<D>::results>{});
template <class Tuple>
struct DecoratedOf;
template <class... D>
struct DecoratedOf<std::tuple<D...>> {
  static_assert(sizeof...(D) > 0, "grad: the parameter or the result is no floating-point number");
  using type = Decorated<D...>;
};
template <class Group, bool with_value, int... I>
struct DerivativesOf;
template <class... D, bool with_value, int... I>
struct DerivativesOf<Decorated<D...>, with_value, I...> {
  using type = typename DecoratedOf<decltype(std::tuple_cat(
      std::conditional_t<is_differentiable<D, I...>, std::tuple<trace::Derivative<D, with_value, I...>>,
                         std::tuple<>>{}...))>::type;
};

}  // namespace detail

// The derivative of a decorated function by its parameter I, for each of its results.
template <int I = 0, class... D>
constexpr auto grad(const Decorated<D...>&) {
  return typename detail::DerivativesOf<Decorated<D...>, false, I>::type{};
}

}  // namespace tileweave
