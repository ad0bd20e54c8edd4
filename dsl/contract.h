// What a kernel requires of its launches: tw::requires_. Checked at every launch before anything runs, in a few
// nanoseconds a clause; a launch that breaks one is a LaunchError with the clause, the values found and both places.
// Stands at the top of a kernel's lambda; the checks themselves are in requirements.h.
#pragma once

#include <string>

#include "tileweave/dsl/memory.h"

namespace tileweave {

// A condition on extents, strides and scalar arguments: tw::requires_(x.extent(1) % 16 == 0).
template <Node C>
  requires(std::same_as<elem_t<C>, bool> && rank_v<C> == 0)
void requires_(const C& condition, const std::string& text = {}, const Place& p = std::source_location::current()) {
  record::require(record_node(condition, p), text, p);
}
template <Node C>
  requires(!std::same_as<elem_t<C>, bool> || rank_v<C> != 0)
TILEWEAVE_REFUSED("requires_: the condition is a scalar bool of extents, strides and arguments: compare something")
void requires_(const C&, const std::string& = {});
// A condition on constants; it is known when the kernel is recorded.
template <std::same_as<bool> C>
void requires_(C condition, const std::string& text = {}, const Place& p = std::source_location::current()) {
  record::require_known(condition, text, p);
}

struct Alignment {
  record::Raw view;
  index_t bytes;
};
// The view's first element lies at a multiple of `bytes`: tw::requires_(tw::aligned(x, 16)).
template <class T, int R>
Alignment aligned(const View<T, R>& view, index_t bytes) {
  return {view.raw(), bytes};
}
inline void requires_(const Alignment& a, const Place& p = std::source_location::current()) {
  record::require_aligned(a.view, a.bytes, p);
}

namespace detail {
template <class T, int R, int k>
Scalar<bool> contiguous_from(const View<T, R>& view, std::integral_constant<int, k>, const Scalar<bool>& all,
                             const Scalar<index_t>& next, const Place& p) {
  if constexpr (k < 0) {
    return all;
  } else {
    const Scalar<index_t> extent = view.extent(k, p);
    return contiguous_from(view, std::integral_constant<int, k - 1>{},
                           Scalar<bool>(all & ((extent == 1) | (view.stride(k, p) == next)), p),
                           Scalar<index_t>(next * extent, p), p);
  }
}
template <class T, class U, int R, int k>
Scalar<bool> equal_from(const View<T, R>& a, const View<U, R>& b, std::integral_constant<int, k>, const Place& p) {
  if constexpr (k < 0) {
    return Scalar<bool>(record::constant(record::literal(true), Dtype::boolean, p));
  } else {
    return Scalar<bool>(equal_from(a, b, std::integral_constant<int, k - 1>{}, p) & (a.extent(k, p) == b.extent(k, p)),
                        p);
  }
}
}  // namespace detail

// Whether the elements lie in row-major order without gaps. Axes of extent 1 may have any stride.
template <class T, int R>
Scalar<bool> is_contiguous(const View<T, R>& view, const Place& p = std::source_location::current()) {
  Scalar<bool> all(record::constant(record::literal(true), Dtype::boolean, p));
  Scalar<index_t> next(record::constant(record::literal(1), Dtype::i64, p));
  return detail::contiguous_from(view, std::integral_constant<int, R - 1>{}, all, next, p);
}
// Whether both have the same extents.
template <class T, class U, int R>
Scalar<bool> same_extents(const View<T, R>& a, const View<U, R>& b, const Place& p = std::source_location::current()) {
  return detail::equal_from(a, b, std::integral_constant<int, R - 1>{}, p);
}

}  // namespace tileweave
