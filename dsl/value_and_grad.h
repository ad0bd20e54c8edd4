// tw::value_and_grad: a group's value and its derivatives together: one launch on tensors, shared work inside a kernel.
// Over gradient.h, decorated.h and tensor_expr.h.
#pragma once

#include "tileweave/dsl/decorated.h"

namespace tileweave {

namespace detail {

// The value of G and its derivatives by I..., or by all arguments where I is empty, as a tuple.
template <class G, int... I>
struct Together {
  template <class... A>
  static auto apply(const A&... a) {
    if constexpr (sizeof...(I) == 0) {
      return [&]<int... K>(std::integer_sequence<int, K...>) {
        return Together<G, K...>::apply(a...);
      }(std::make_integer_sequence<int, static_cast<int>(sizeof...(A))>{});
    } else {
      return std::make_tuple(G{}(a...), FusionGroup<GradientBody<I, G>>()(a...)...);
    }
  }
};
template <class... D, int... I>
struct Together<Decorated<D...>, I...> {
  template <class... A>
  static auto apply(const A&... a) {
    if constexpr (sizeof...(I) > 0) {
      return DerivativesOf<Decorated<D...>, true, I...>::type::apply(a...);
    } else {
      return by_all(std::index_sequence_for<A...>{}, a...);
    }
  }

 private:
  template <std::size_t... K, class... A>
  static auto by_all(std::index_sequence<K...>, const A&... a) {
    static_assert(
        (Decorated<D...>::template takes_float<K> && ...),
        "value_and_grad: not every parameter is a floating-point number: name those to differentiate by, as in "
        "value_and_grad<0>(group)");
    return Together<Decorated<D...>, static_cast<int>(K)...>::apply(a...);
  }
};

}  // namespace detail

template <class G, int... I>
class ValueAndGrad {
 public:
  // (value, derivative by I or by each argument, ...): scalars of scalars, tiles of tiles; of tensors new tensors, in
  // one launch.
  template <Operand... A>
  auto operator()(const A&... a) const {
    const auto parts = detail::Together<G, I...>::apply(a...);
    if constexpr (detail::join_leaf<node_t<A>...>() == Leaf::tensor) {
      return evaluate(parts);
    } else {
      return parts;
    }
  }
};

// auto [y, slope] = tw::value_and_grad(gelu)(x). Name arguments to differentiate by fewer: value_and_grad<0>(group).
template <int... I, Group G>
constexpr auto value_and_grad(const G&) {
  return ValueAndGrad<std::remove_cvref_t<G>, I...>{};
}

}  // namespace tileweave
