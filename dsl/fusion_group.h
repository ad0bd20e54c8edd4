// Fusion groups: a composite of element-wise operations, written once as a generic lambda.
// Applied to host scalars it computes, to tiles and tensors it builds their expression; ops take one as their epilogue.
#pragma once

#include <string_view>
#include <type_traits>

#include "tileweave/dsl/math.h"

namespace tileweave {

template <class F>
class FusionGroup;

template <class G>
inline constexpr bool is_fusion_group = false;
template <class F>
inline constexpr bool is_fusion_group<FusionGroup<F>> = true;
template <ir::OpId Op>
inline constexpr bool is_fusion_group<detail::OpFunction<Op>> = true;
// A fusion group or a single element-wise operation (tw::gelu, tw::tanh). Stateless: G{} is the same group.
template <class G>
concept Group = is_fusion_group<std::remove_cvref_t<G>>;

namespace detail {

template <class A, class... B>
constexpr auto first_node(const A& a, const B&... b) {
  if constexpr (Node<A>) {
    return node(a);
  } else {
    return first_node(b...);
  }
}
template <class A>
constexpr auto group_argument(const A& a) {
  if constexpr (Node<A>) {
    return node(a);
  } else {
    return host_value(a);
  }
}
template <class A>
using group_argument_t = decltype(group_argument(std::declval<const A&>()));

// The result of a group applied to nodes: a constant takes element type and extents from the first of them.
template <class R, class... A>
constexpr auto as_node(const R& r, const A&... a) {
  using First = decltype(first_node(a...));
  if constexpr (HostValue<R>) {
    return Like<First, host_value_t<R>>(first_node(a...), Lit<host_value_t<R>>(host_value(r)));
  } else if constexpr (weak_v<R> && !std::same_as<typename First::elem, AnyElem>) {
    return make_cast<typename First::elem, false>(r);
  } else {
    return r;
  }
}

}  // namespace detail

template <class F>
class FusionGroup {
  static_assert(std::is_empty_v<F> && std::is_default_constructible_v<F>,
                "a fusion group captures nothing: pass the value as an argument");

 public:
  constexpr FusionGroup() = default;
  constexpr explicit FusionGroup(std::string_view name) : name_(name) {}

  template <class... A>
    requires((Operand<A> && ...) && std::is_invocable_v<F, detail::group_argument_t<A>...>)
  constexpr auto operator()(const A&... a) const {
    const auto r = F{}(detail::group_argument(a)...);
    if constexpr ((Node<A> || ...)) {
      return detail::as_node(r, a...);
    } else {
      return r;
    }
  }
  template <class... A>
    requires((Operand<A> && ...) && !std::is_invocable_v<F, detail::group_argument_t<A>...>)
  TILEWEAVE_REFUSED("the fusion group takes another number of arguments")
  void operator()(const A&...) const;

  constexpr std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

// A fusion group from a captureless lambda over `auto` parameters. The name is for messages.
template <class F>
  requires(std::is_empty_v<F> && std::is_default_constructible_v<F>)
constexpr FusionGroup<F> fusion_group(std::string_view name, F) {
  return FusionGroup<F>(name);
}
template <class F>
  requires(!std::is_empty_v<F> || !std::is_default_constructible_v<F>)
TILEWEAVE_REFUSED("a fusion group captures nothing: pass the value as an argument")
constexpr int fusion_group(std::string_view, F);

// Returns its argument: the epilogue of an op that was given none.
inline constexpr auto identity = fusion_group("identity", [](auto x) { return x; });

}  // namespace tileweave
