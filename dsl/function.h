// tw::function: a piece of a kernel that is recorded once and called, with tiles, scalars, pointers and views by value.
// Over tile.h and memory.h; record_call.cpp keeps the recorded functions and writes the calls.
#pragma once

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tileweave/dsl/memory.h"
#include "tileweave/dsl/shape.h"

namespace tileweave {

namespace detail {

// What a call takes for a function's parameter P, the I-th from 1 (the number shows in the compiler's messages).
template <int I, class P>
struct CallArg;

template <int parameter, class T, int R>
class TileArg {
 public:
  template <Operand E>
    requires(ConvertsTo<E, T> && (rank_v<E> == R || (R == 0 && HostValue<E>)))
  TileArg(const E& e, const Place& p = std::source_location::current()) : raw_(record_as(e, dtype_of<T>, p)) {}
  template <Operand E>
    requires(!ConvertsTo<E, T>)
  TILEWEAVE_REFUSED("the argument has another element type than the function's parameter: convert it with .to<T>()")
  TileArg(const E&);
  template <Operand E>
    requires(ConvertsTo<E, T> && rank_v<E> != R && !(R == 0 && HostValue<E>))
  TILEWEAVE_REFUSED("the argument has another rank than the function's parameter")
  TileArg(const E&);
  template <class E>
    requires(!Operand<E>)
  TILEWEAVE_REFUSED("a tile or a scalar is expected for this parameter of the function")
  TileArg(const E&);

  const record::Raw& raw() const { return raw_; }

 private:
  record::Raw raw_;
};

// A view of T, or for View<const T, R> of T or const T; likewise pointers.
template <int parameter, template <class, int> class X, class T, int R>
class MemoryArg {
 public:
  template <class U>
    requires(std::same_as<U, T> || std::same_as<const U, T>)
  MemoryArg(const X<U, R>& x) : raw_(x.raw()) {}
  template <class U>
    requires(!std::same_as<U, X<T, R>> && !std::same_as<U, X<std::remove_const_t<T>, R>>)
  TILEWEAVE_REFUSED("the function's parameter is a tw::View or tw::Ptr of another element type, rank or constness")
  MemoryArg(const U&);

  const record::Raw& raw() const { return raw_; }

 private:
  record::Raw raw_;
};

template <int parameter, class T>
class ConstantArg {
 public:
  template <class U>
    requires std::is_convertible_v<const U&, T>
  ConstantArg(const U& v) : value_(static_cast<T>(v)) {}
  template <class U>
    requires(!std::is_convertible_v<const U&, T>)
  TILEWEAVE_REFUSED("a tw::Const parameter of a function takes a C++ value of its type")
  ConstantArg(const U&);

  const T& value() const { return value_; }

 private:
  T value_;
};

template <int I, class T, int R>
struct CallArg<I, Tile<T, R>> {
  using type = TileArg<I, T, R>;
  static constexpr bool is_constant = false;
};
template <int I, class T, int R>
struct CallArg<I, View<T, R>> {
  using type = MemoryArg<I, View, T, R>;
  static constexpr bool is_constant = false;
};
template <int I, class T, int R>
struct CallArg<I, PtrTile<T, R>> {
  using type = MemoryArg<I, PtrTile, T, R>;
  static constexpr bool is_constant = false;
};
template <int I, ConstType T>
struct CallArg<I, Const<T>> {
  using type = ConstantArg<I, T>;
  static constexpr bool is_constant = true;
};

template <class P>
concept FunctionParameter = requires { typename CallArg<1, P>::type; };

// What a function may return: nothing, a tile, an expression, pointers, or a std::tuple, pair or array of these.
template <class X>
struct Given {
  static constexpr bool good = false;
};
template <TileNode X>
  requires(!node_t<X>::weak && leaf_v<X> != Leaf::placeholder && leaf_v<X> != Leaf::none)
struct Given<X> {
  static constexpr bool good = true;
  using type = Tile<elem_t<X>, rank_v<X>>;
  static record::Raw raw(const X& x) { return record_node(x, {}); }
};
template <class T, int R>
struct Given<PtrTile<T, R>> {
  static constexpr bool good = true;
  using type = PtrTile<T, R>;
  static record::Raw raw(const type& x) { return x.raw(); }
};

template <class R>
struct Results {
  static constexpr bool good = Given<R>::good;
  static std::vector<record::Raw> raw(const R& r) { return {Given<R>::raw(r)}; }
  static auto make(const std::vector<record::Raw>& raw) { return typename Given<R>::type(raw[0]); }
};
template <>
struct Results<void> {
  static constexpr bool good = true;
  static void make(const std::vector<record::Raw>&) {}
};
template <class R>
  requires requires { std::tuple_size<R>::value; }
struct Results<R> {
  template <std::size_t K>
  using Part = Given<std::remove_cvref_t<std::tuple_element_t<K, R>>>;
  using Numbers = std::make_index_sequence<std::tuple_size_v<R>>;

  static constexpr bool good = []<std::size_t... K>(std::index_sequence<K...>) {
    return (Part<K>::good && ...);
  }(Numbers{});
  static std::vector<record::Raw> raw(const R& r) {
    return [&]<std::size_t... K>(std::index_sequence<K...>) {
      return std::vector<record::Raw>{Part<K>::raw(std::get<K>(r))...};
    }(Numbers{});
  }
  static auto make(const std::vector<record::Raw>& raw) {
    return [&]<std::size_t... K>(std::index_sequence<K...>) {
      return std::tuple<typename Part<K>::type...>(typename Part<K>::type(raw[K])...);
    }(Numbers{});
  }
};

// One address for each lambda.
template <class F>
inline constexpr char function_identity = 0;

}  // namespace detail

// A function of kernels. R: what its lambda returns; P: its parameters.
template <class F, class R, class Seq, class... P>
class TileFunction;

template <class F, class R, std::size_t... I, class... P>
class TileFunction<F, R, std::index_sequence<I...>, P...> {
 public:
  TileFunction(std::string_view name, const Place& place) : name_(name), place_(place) {}

  // Calls the function where a kernel is recorded; its body is recorded at the first call with these extents and
  // constants. Tiles bring their validity along.
  auto operator()(typename detail::CallArg<static_cast<int>(I) + 1, P>::type... a,
                  const Place& p = std::source_location::current()) const {
    std::vector<record::Raw> arguments;
    std::array<std::uint64_t, constant_words + 1> words{};
    std::uint64_t* end = words.data();
    (put<P>(a, arguments, end), ...);
    const auto body = [&](std::span<const record::Raw> parameters) {
      std::size_t next = 0;
      std::tuple<P...> symbols{symbol<P>(a, parameters, next)...};  // braces: from left to right
      if constexpr (std::is_void_v<R>) {
        std::apply(F{}, std::move(symbols));
        return std::vector<record::Raw>{};
      } else {
        return Results::raw(std::apply(F{}, std::move(symbols)));
      }
    };
    return Results::make(record::call({&detail::function_identity<F>, name_, place_}, arguments,
                                      std::span(words).first(constant_words), record::CalleeBody(body), p));
  }
  template <class... A>
    requires(sizeof...(A) != sizeof...(P))
  TILEWEAVE_REFUSED("wrong number of arguments: give one for each parameter of the function's lambda")
  void operator()(const A&...) const;

  const std::string& name() const { return name_; }

 private:
  using Results = detail::Results<std::remove_cvref_t<R>>;

  template <class X>
  static constexpr std::size_t words_of() {
    if constexpr (detail::CallArg<1, X>::is_constant) {
      return detail::const_words<
          std::remove_cvref_t<decltype(std::declval<const typename detail::CallArg<1, X>::type&>().value())>>();
    } else {
      return 0;
    }
  }
  static constexpr std::size_t constant_words = (std::size_t{0} + ... + words_of<P>());

  template <class X, class A>
  static void put(const A& a, std::vector<record::Raw>& arguments, std::uint64_t*& words) {
    if constexpr (detail::CallArg<1, X>::is_constant) {
      words = detail::write_const(a.value(), words);
    } else {
      arguments.push_back(a.raw());
    }
  }
  template <class X, class A>
  static X symbol(const A& a, std::span<const record::Raw> parameters, std::size_t& next) {
    if constexpr (detail::CallArg<1, X>::is_constant) {
      return X(a.value());
    } else {
      return X(parameters[next++]);
    }
  }

  std::string name_;
  Place place_;
};

namespace detail {
template <class M>
struct FunctionSignature {
  static constexpr bool parameters = false, results = false;
};
template <class C, class R, class... P>
struct FunctionSignature<R (C::*)(P...) const> {
  static constexpr bool parameters = (FunctionParameter<std::remove_cvref_t<P>> && ...);
  static constexpr bool results = Results<std::remove_cvref_t<R>>::good;
  template <class F>
  using function = TileFunction<F, R, std::index_sequence_for<P...>, std::remove_cvref_t<P>...>;
};
template <class F>
concept TypedLambda = requires { &F::operator(); };
template <class F>
using function_signature = FunctionSignature<decltype(&F::operator())>;
}  // namespace detail

// Makes a function from a lambda over tw::Tile, tw::Scalar, tw::View, tw::Ptr (tiles of them, too) and tw::Const
// parameters. What it returns is a tile, or a std::tuple of tiles; it may also store, print and assert.
template <detail::TypedLambda F>
  requires(std::is_empty_v<F> && detail::function_signature<F>::parameters && detail::function_signature<F>::results)
auto function(std::string_view name, F, const Place& place = std::source_location::current()) {
  return typename detail::function_signature<F>::template function<F>(name, place);
}
template <detail::TypedLambda F>
  requires(!std::is_empty_v<F>)
TILEWEAVE_REFUSED("a function captures nothing: pass the value as an argument")
int function(std::string_view, F);
template <detail::TypedLambda F>
  requires(std::is_empty_v<F> && !detail::function_signature<F>::parameters)
TILEWEAVE_REFUSED("a function takes tw::Tile, tw::Scalar, tw::View, tw::Ptr or tw::Const parameters")
int function(std::string_view, F);
template <detail::TypedLambda F>
  requires(std::is_empty_v<F> && detail::function_signature<F>::parameters && !detail::function_signature<F>::results)
TILEWEAVE_REFUSED("a function returns nothing, a tile, or a std::tuple of tiles")
int function(std::string_view, F);
template <class F>
  requires(!detail::TypedLambda<F>)
TILEWEAVE_REFUSED(
    "a function's lambda needs a type for every parameter (no auto): a composite of element-wise operations is a "
    "tw::fusion_group")
int function(std::string_view, F);

}  // namespace tileweave
