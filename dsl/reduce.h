// Reductions over an axis: sum prod max min nanmax nanmin any all argmax argmin.
// They skip invalid lanes, as if those were the operation's identity.
#pragma once

#include "tileweave/dsl/shape.h"

namespace tileweave {

struct keep_dims_t {};
inline constexpr keep_dims_t keep_dims{};

namespace detail {
template <class E>
concept Reducible = TileNode<E> && (rank_v<E> > 0);
template <class E>
concept ReducibleNumber = Reducible<E> && NumberElem<elem_t<E>>;
template <class E>
concept ReducibleFlag = Reducible<E> && BoolElem<elem_t<E>>;
}  // namespace detail

#define TILEWEAVE_REDUCTION(name, concept_, kind)                                                                      \
  template <detail::concept_ E>                                                                                        \
  Tile<elem_t<E>, rank_v<E> - 1> name(const E& e, int axis, const Place& p = std::source_location::current()) {        \
    return Tile<elem_t<E>, rank_v<E> - 1>(record::reduce(record_node(e, p), axis, record::Reduction::kind, false, p)); \
  }                                                                                                                    \
  template <detail::concept_ E>                                                                                        \
  Tile<elem_t<E>, rank_v<E>> name(const E& e, int axis, keep_dims_t,                                                   \
                                  const Place& p = std::source_location::current()) {                                  \
    return Tile<elem_t<E>, rank_v<E>>(record::reduce(record_node(e, p), axis, record::Reduction::kind, true, p));      \
  }                                                                                                                    \
  template <detail::Reducible E>                                                                                       \
    requires(!detail::concept_<E>)                                                                                     \
  TILEWEAVE_REFUSED(#name ": numbers are summed and compared, bools go to tw::any and tw::all: convert with .to<T>()") \
  E name(const E&, int, AnyList = {});                                                                                 \
  template <TileNode E>                                                                                                \
    requires(rank_v<E> == 0)                                                                                           \
  TILEWEAVE_REFUSED(#name ": a scalar has no axis to reduce")                                                          \
  E name(const E&, int, AnyList = {});

// Sum; f16, bf16 and fp8 accumulate in f32. The order is fixed: the same launch gives the same bits.
TILEWEAVE_REDUCTION(sum, ReducibleNumber, sum)
TILEWEAVE_REDUCTION(prod, ReducibleNumber, prod)
// Largest and smallest; NaN if any lane is. Without a valid lane -inf and inf (the lowest and highest integer).
TILEWEAVE_REDUCTION(max, ReducibleNumber, max)
TILEWEAVE_REDUCTION(min, ReducibleNumber, min)
// NaN lanes are ignored.
TILEWEAVE_REDUCTION(nanmax, ReducibleNumber, fmax)
TILEWEAVE_REDUCTION(nanmin, ReducibleNumber, fmin)
TILEWEAVE_REDUCTION(any, ReducibleFlag, any)
TILEWEAVE_REDUCTION(all, ReducibleFlag, all)
#undef TILEWEAVE_REDUCTION

// Index (i32) of the largest or smallest lane: the lowest index wins ties, NaN wins over numbers, 0 without a valid
// lane.
template <detail::ReducibleNumber E>
Tile<int, rank_v<E> - 1> argmax(const E& e, int axis, const Place& p = std::source_location::current()) {
  return Tile<int, rank_v<E> - 1>(record::arg_reduce(record_node(e, p), axis, true, false, p));
}
template <detail::ReducibleNumber E>
Tile<int, rank_v<E>> argmax(const E& e, int axis, keep_dims_t, const Place& p = std::source_location::current()) {
  return Tile<int, rank_v<E>>(record::arg_reduce(record_node(e, p), axis, true, true, p));
}
template <detail::ReducibleNumber E>
Tile<int, rank_v<E> - 1> argmin(const E& e, int axis, const Place& p = std::source_location::current()) {
  return Tile<int, rank_v<E> - 1>(record::arg_reduce(record_node(e, p), axis, false, false, p));
}
template <detail::ReducibleNumber E>
Tile<int, rank_v<E>> argmin(const E& e, int axis, keep_dims_t, const Place& p = std::source_location::current()) {
  return Tile<int, rank_v<E>>(record::arg_reduce(record_node(e, p), axis, false, true, p));
}

}  // namespace tileweave
