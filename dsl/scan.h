// Running combinations and reductions with a function of the user's: scan, reduce; cumsum cumprod cummax cummin.
// The function is called once, on scalars, when the kernel is recorded; it has to be associative, not commutative.
#pragma once

#include <array>
#include <concepts>
#include <tuple>
#include <vector>

#include "tileweave/dsl/reduce.h"

namespace tileweave {

struct reverse_t {};
inline constexpr reverse_t reverse{};

namespace detail {

template <class E>
concept Scannable = TileNode<E> && (rank_v<E> > 0);

// Several tiles at once: std::tuple of tiles of one rank.
template <class T>
struct TileTuple {
  static constexpr bool known = false;
};
template <class First, class... Rest>
  requires(Scannable<First> && ((Scannable<Rest> && rank_v<Rest> == rank_v<First>) && ...))
struct TileTuple<std::tuple<First, Rest...>> {
  static constexpr bool known = true;
  static constexpr int rank = rank_v<First>;
  using Scalars = std::tuple<Scalar<elem_t<First>>, Scalar<elem_t<Rest>>...>;
  template <int R>
  using Tiles = std::tuple<Tile<elem_t<First>, R>, Tile<elem_t<Rest>, R>...>;
};
template <class T>
concept ScannableTuple = TileTuple<std::remove_cvref_t<T>>::known;

template <class Tuple, std::size_t... I>
Tuple tuple_of(const std::vector<record::Raw>& raw, std::size_t from, std::index_sequence<I...>) {
  return Tuple(std::tuple_element_t<I, Tuple>(raw[from + I])...);
}
template <class Tuple>
Tuple tuple_of(const std::vector<record::Raw>& raw, std::size_t from = 0) {
  return tuple_of<Tuple>(raw, from, std::make_index_sequence<std::tuple_size_v<Tuple>>{});
}

// What the function gave, as values of the types it got.
template <class Scalars, class Given, std::size_t... I>
std::vector<record::Raw> raw_results(const Given& given, const Place& p, std::index_sequence<I...>) {
  return {record_as(std::get<I>(given), dtype_of<typename std::tuple_element_t<I, Scalars>::elem>, p)...};
}

template <class Given, class Scalars, std::size_t... I>
consteval bool gives(std::index_sequence<I...>) {
  return (ConvertsTo<std::tuple_element_t<I, Given>, typename std::tuple_element_t<I, Scalars>::elem> && ...);
}
template <class Given, class Scalars>
concept Gives = requires { std::tuple_size<Given>::value; } && std::tuple_size_v<Given> == std::tuple_size_v<Scalars> &&
                gives<Given, Scalars>(std::make_index_sequence<std::tuple_size_v<Scalars>>{});

// Whether f(a, b) takes two scalars (or tuples of them) and gives one that stands for the tile's element.
template <class F, class E>
concept CombinesTile = std::invocable<const F&, Scalar<elem_t<E>>, Scalar<elem_t<E>>> &&
                       ConvertsTo<std::invoke_result_t<const F&, Scalar<elem_t<E>>, Scalar<elem_t<E>>>, elem_t<E>>;
template <class T>
using scalars_of = typename TileTuple<T>::Scalars;
template <class F, class T>
concept CombinesTuple =
    std::invocable<const F&, scalars_of<T>, scalars_of<T>> &&
    Gives<std::remove_cvref_t<std::invoke_result_t<const F&, scalars_of<T>, scalars_of<T>>>, scalars_of<T>>;

template <int R, class... E, class F>
auto combine_lanes(const std::tuple<E...>& tiles, int axis, record::Lanes how, const F& f, const Place& p) {
  using Types = TileTuple<std::tuple<E...>>;
  using Scalars = typename Types::Scalars;
  constexpr std::size_t n = sizeof...(E);
  const std::array<record::Raw, n> values =
      std::apply([&](const auto&... t) { return std::array<record::Raw, n>{record_node(t, p)...}; }, tiles);
  const std::vector<record::Raw> args = record::begin_combine(values, axis, how, p);
  const auto given = f(tuple_of<Scalars>(args), tuple_of<Scalars>(args, n));
  const auto raw = raw_results<Scalars>(given, p, std::make_index_sequence<n>{});
  return tuple_of<typename Types::template Tiles<R>>(record::end_combine(raw, p));
}

template <int R, class E, class F>
Tile<elem_t<E>, R> combine_tile(const E& e, int axis, record::Lanes how, const F& f, const Place& p) {
  using S = Scalar<elem_t<E>>;
  const record::Raw values[] = {record_node(e, p)};
  const std::vector<record::Raw> args = record::begin_combine(values, axis, how, p);
  const record::Raw raw[] = {record_as(f(S(args[0]), S(args[1])), dtype_of<elem_t<E>>, p)};
  return Tile<elem_t<E>, R>(record::end_combine(raw, p)[0]);
}

}  // namespace detail

// Lane i of the result is f(... f(f(t[0], t[1]), t[2]) ..., t[i]) along the axis; with tw::reverse it begins at the
// last lane: f(... f(t[n - 1], t[n - 2]) ..., t[i]). f is associative; invalid lanes are left out and stay invalid.
//   tw::scan(x, 1, [](auto a, auto b) { return tw::maximum(a, b); })
template <detail::Scannable E, detail::CombinesTile<E> F>
Tile<elem_t<E>, rank_v<E>> scan(const E& e, int axis, const F& f, const Place& p = std::source_location::current()) {
  return detail::combine_tile<rank_v<E>>(e, axis, record::Lanes::scan, f, p);
}
template <detail::Scannable E, detail::CombinesTile<E> F>
Tile<elem_t<E>, rank_v<E>> scan(const E& e, int axis, const F& f, reverse_t,
                                const Place& p = std::source_location::current()) {
  return detail::combine_tile<rank_v<E>>(e, axis, record::Lanes::reverse_scan, f, p);
}
// Several tiles together: f takes and gives tuples.
//   auto [a, b] = tw::scan(std::tuple(x, y), 0, [](auto s, auto t) { auto [sa, sb] = s; ... return std::tuple(...); });
template <detail::ScannableTuple T, detail::CombinesTuple<T> F>
auto scan(const T& tiles, int axis, const F& f, const Place& p = std::source_location::current()) {
  return detail::combine_lanes<detail::TileTuple<T>::rank>(tiles, axis, record::Lanes::scan, f, p);
}
template <detail::ScannableTuple T, detail::CombinesTuple<T> F>
auto scan(const T& tiles, int axis, const F& f, reverse_t, const Place& p = std::source_location::current()) {
  return detail::combine_lanes<detail::TileTuple<T>::rank>(tiles, axis, record::Lanes::reverse_scan, f, p);
}

// All valid lanes along the axis combined, in order; 0 where there is none.
template <detail::Scannable E, detail::CombinesTile<E> F>
Tile<elem_t<E>, rank_v<E> - 1> reduce(const E& e, int axis, const F& f,
                                      const Place& p = std::source_location::current()) {
  return detail::combine_tile<rank_v<E> - 1>(e, axis, record::Lanes::fold, f, p);
}
template <detail::Scannable E, detail::CombinesTile<E> F>
Tile<elem_t<E>, rank_v<E>> reduce(const E& e, int axis, const F& f, keep_dims_t,
                                  const Place& p = std::source_location::current()) {
  return detail::combine_tile<rank_v<E>>(e, axis, record::Lanes::fold_keep_dims, f, p);
}
template <detail::ScannableTuple T, detail::CombinesTuple<T> F>
auto reduce(const T& tiles, int axis, const F& f, const Place& p = std::source_location::current()) {
  return detail::combine_lanes<detail::TileTuple<T>::rank - 1>(tiles, axis, record::Lanes::fold, f, p);
}
template <detail::ScannableTuple T, detail::CombinesTuple<T> F>
auto reduce(const T& tiles, int axis, const F& f, keep_dims_t, const Place& p = std::source_location::current()) {
  return detail::combine_lanes<detail::TileTuple<T>::rank>(tiles, axis, record::Lanes::fold_keep_dims, f, p);
}

#define TILEWEAVE_COMBINES \
  "the combining function takes two scalars and gives one of the tile's element type: convert with .to<T>()"
#define TILEWEAVE_COMBINES_TUPLES                                                                                     \
  "the combining function takes two std::tuples of scalars and gives one, of the tiles' element types: convert with " \
  ".to<T>()"
#define TILEWEAVE_REFUSED_COMBINE(name)                    \
  template <detail::Scannable E, class F, class... A>      \
    requires(!detail::CombinesTile<F, E>)                  \
  TILEWEAVE_REFUSED(#name ": " TILEWEAVE_COMBINES)         \
  E name(const E&, int, const F&, const A&...);            \
  template <detail::ScannableTuple T, class F, class... A> \
    requires(!detail::CombinesTuple<F, T>)                 \
  TILEWEAVE_REFUSED(#name ": " TILEWEAVE_COMBINES_TUPLES)  \
  T name(const T&, int, const F&, const A&...);
TILEWEAVE_REFUSED_COMBINE(scan)
TILEWEAVE_REFUSED_COMBINE(reduce)
#undef TILEWEAVE_REFUSED_COMBINE

namespace detail {
// Narrow floats are summed in f32 and rounded once for each lane.
template <class E, class F, class... How>
auto cumulate(const E& e, int axis, const F& f, const Place& p, const How&... how) {
  using T = elem_t<E>;
  using Wide = std::conditional_t<NarrowFloatType<T>, float, T>;
  const Tile<T, rank_v<E>> x(record_node(e, p));
  return Tile<T, rank_v<E>>(scan(x.template to<Wide>(), axis, f, how..., p).template to<T>(), p);
}
}  // namespace detail

#define TILEWEAVE_CUMULATIVE(name, expression)                                                                         \
  template <detail::ReducibleNumber E>                                                                                 \
  Tile<elem_t<E>, rank_v<E>> name(const E& e, int axis, const Place& p = std::source_location::current()) {            \
    return detail::cumulate(e, axis, [](const auto& a, const auto& b) { return expression; }, p);                      \
  }                                                                                                                    \
  template <detail::ReducibleNumber E>                                                                                 \
  Tile<elem_t<E>, rank_v<E>> name(const E& e, int axis, reverse_t, const Place& p = std::source_location::current()) { \
    return detail::cumulate(e, axis, [](const auto& a, const auto& b) { return expression; }, p, reverse);             \
  }                                                                                                                    \
  template <TileNode E, class... A>                                                                                    \
    requires(!detail::ReducibleNumber<E>)                                                                              \
  TILEWEAVE_REFUSED(#name ": a tile of numbers with at least one axis: convert bools with .to<int>()")                 \
  E name(const E&, int, const A&...);

// Running sum; f16, bf16 and fp8 accumulate in f32.
TILEWEAVE_CUMULATIVE(cumsum, a + b)
TILEWEAVE_CUMULATIVE(cumprod, a* b)
// Running largest and smallest; from a NaN on all are NaN.
TILEWEAVE_CUMULATIVE(cummax, maximum(a, b))
TILEWEAVE_CUMULATIVE(cummin, minimum(a, b))
#undef TILEWEAVE_CUMULATIVE

// Bits of all lanes combined: xor_sum, or_sum, and_sum (Triton's xor_sum and reduce_or).
template <detail::Scannable E>
  requires(IntElem<elem_t<E>> || BoolElem<elem_t<E>>)
Tile<elem_t<E>, rank_v<E> - 1> xor_sum(const E& e, int axis, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E> - 1>(record::reduce(record_node(e, p), axis, record::Reduction::bit_xor, false, p));
}
template <detail::Scannable E>
  requires(IntElem<elem_t<E>> || BoolElem<elem_t<E>>)
Tile<elem_t<E>, rank_v<E> - 1> or_sum(const E& e, int axis, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E> - 1>(record::reduce(record_node(e, p), axis, record::Reduction::bit_or, false, p));
}
template <detail::Scannable E>
  requires(IntElem<elem_t<E>> || BoolElem<elem_t<E>>)
Tile<elem_t<E>, rank_v<E> - 1> and_sum(const E& e, int axis, const Place& p = std::source_location::current()) {
  return Tile<elem_t<E>, rank_v<E> - 1>(record::reduce(record_node(e, p), axis, record::Reduction::bit_and, false, p));
}

}  // namespace tileweave
