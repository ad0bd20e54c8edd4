// tw::kernel: from a captureless lambda to an object with launch(). Its parameters are the kernel's, checked by the C++
// compiler against each launch.
// The lambda is called once for each set of constants, with symbolic arguments; launch.h does the rest.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "tileweave/dsl/launch.h"
#include "tileweave/dsl/memory.h"
#include "tileweave/dsl/tensor.h"

namespace tileweave {

// A scalar parameter whose value the JIT sees: one variant for each value.
template <class T>
class Specialized : public Scalar<T> {
 public:
  using Scalar<T>::Scalar;
};

namespace detail {

template <class T>
struct NodeOf<Specialized<T>> {
  using type = Tile<T, 0>;
};

// What a launch takes for a kernel's parameter P, the I-th from 1 (the number shows in the compiler's messages).
template <int I, class P>
struct HostArg;

// A tensor for a View<T, R> parameter, or for a Ptr<T> one (R is -1).
template <int parameter, class T, int R>
class ViewArg {
 public:
  using V = canonical_t<std::remove_const_t<T>>;
  template <class U>
    requires std::same_as<canonical_t<U>, V>
  ViewArg(const Tensor<U>& t) : tensor_(&t.any()) {}
  template <class U>
    requires(!std::same_as<canonical_t<U>, V>)
  TILEWEAVE_REFUSED("the tensor has another element type than the kernel's view")
  ViewArg(const Tensor<U>&);
  template <Node E>
    requires(!is_tensor<E>)
  TILEWEAVE_REFUSED("a kernel takes tensors: assign the tensor expression to a tw::Tensor first")
  ViewArg(const E&);
  template <class U>
    requires(!Node<U>)
  TILEWEAVE_REFUSED("a tensor is expected for a tw::View or tw::Ptr parameter")
  ViewArg(const U&);

  void put(launch::Frame& frame, int number) const {
    if constexpr (R < 0) {
      frame.pointer(number, *tensor_);
    } else {
      frame.view(number, *tensor_, R, dtype_of<V>, !std::is_const_v<T>);
    }
  }
  auto symbol() const {
    if constexpr (R < 0) {
      return Ptr<T>(launch::add_pointer(dtype_of<V>, std::is_const_v<T>));
    } else {
      return View<T, R>(launch::add_view(dtype_of<V>, R, std::is_const_v<T>));
    }
  }

 private:
  const runtime::AnyTensor* tensor_;
};

// A number for a parameter of type T: integers of any type, checked for range at the launch.
template <class T>
class Number {
 public:
  template <class U>
  explicit Number(U v) : value_(static_cast<T>(v)) {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<U> && !std::same_as<T, bool> && !std::same_as<U, bool>) {
      fits_ = std::in_range<T>(v);
      given_ = record::literal(v);
    }
  }
  T value() const { return value_; }
  void check(const launch::Frame& frame, int number) const {
    if (fits_) return;
    frame.refuse(number,
                 "is " +
                     (given_.kind == record::Literal::Kind::unsigned_int
                          ? std::to_string(static_cast<std::uint64_t>(given_.integer))
                          : std::to_string(given_.integer)) +
                     ", which does not fit " + std::string(dtype_name(dtype_of<canonical_t<T>>)),
                 "give the parameter a wider type, or pass a smaller number");
  }

 private:
  T value_;
  bool fits_ = true;
  record::Literal given_{};
};

template <class T, class U>
concept NumberFor =
    (FloatElem<T> && (std::is_arithmetic_v<U> || NarrowFloatType<U>)) ||
    (IntElem<T> && std::is_integral_v<U> && !std::same_as<U, bool>) || (BoolElem<T> && std::same_as<U, bool>);

template <int parameter, class T, bool specialized>
class ScalarArg {
 public:
  template <class U>
    requires NumberFor<T, U>
  ScalarArg(U v) : number_(v) {}
  template <class U>
    requires(!NumberFor<T, U> && std::is_arithmetic_v<U>)
  TILEWEAVE_REFUSED("a floating-point number (or bool) for an integer kernel parameter: convert it")
  ScalarArg(U);
  template <class U>
    requires(!NumberFor<T, U> && !std::is_arithmetic_v<U>)
  TILEWEAVE_REFUSED("a number is expected for a tw::Scalar parameter")
  ScalarArg(const U&);

  void put(launch::Frame& frame, int number) const {
    number_.check(frame, number);
    frame.scalar(runtime::scalar_slot(number_.value()));
    if constexpr (specialized) {
      std::uint64_t* out = frame.constants();
      *out = runtime::scalar_slot(number_.value());
      frame.constants_end(out + 1);
    }
  }
  auto symbol() const {
    if constexpr (specialized) {
      return Specialized<T>(launch::add_specialized(dtype_of<T>, runtime::scalar_slot(number_.value())));
    } else {
      return Scalar<T>(launch::add_scalar(dtype_of<T>));
    }
  }

 private:
  Number<T> number_;
};

template <class T>
void put_constant(launch::Frame& frame, const T& v) {
  frame.constants_end(write_const(v, frame.constants()));
}

template <int parameter, class T>
class ConstArg {
 public:
  template <std::integral U>
    requires(!std::same_as<U, bool>)
  ConstArg(U v) : number_(v) {}
  template <class U>
    requires(std::floating_point<U> || std::same_as<U, bool>)
  TILEWEAVE_REFUSED("a floating-point number (or bool) for an integer tw::Const parameter: convert it")
  ConstArg(U);
  template <class U>
    requires(!std::is_arithmetic_v<U>)
  TILEWEAVE_REFUSED("an integer is expected for a tw::Const parameter")
  ConstArg(const U&);

  T value() const { return number_.value(); }
  void check(launch::Frame& frame, int number) const { number_.check(frame, number); }

 private:
  Number<T> number_;
};

template <int I, class T, int R>
struct HostArg<I, View<T, R>> {
  using type = ViewArg<I, T, R>;
  static constexpr int constant_words = 0, slots = runtime::slots_of_view(R);
  static void put(launch::Frame& f, const type& a) { a.put(f, I); }
  static View<T, R> symbol(const type& a) { return a.symbol(); }
  static std::string text(const type&) { return {}; }
};
template <int I, class T>
struct HostArg<I, PtrTile<T, 0>> {
  using type = ViewArg<I, T, -1>;
  static constexpr int constant_words = 0, slots = 1;
  static void put(launch::Frame& f, const type& a) { a.put(f, I); }
  static Ptr<T> symbol(const type& a) { return a.symbol(); }
  static std::string text(const type&) { return {}; }
};
template <int I, class T>
struct HostArg<I, Tile<T, 0>> {
  using type = ScalarArg<I, T, false>;
  static constexpr int constant_words = 0, slots = 1;
  static void put(launch::Frame& f, const type& a) { a.put(f, I); }
  static Scalar<T> symbol(const type& a) { return a.symbol(); }
  static std::string text(const type&) { return {}; }
};
template <int I, class T>
struct HostArg<I, Specialized<T>> {
  using type = ScalarArg<I, T, true>;
  static constexpr int constant_words = 1, slots = 1;
  static void put(launch::Frame& f, const type& a) { a.put(f, I); }
  static Specialized<T> symbol(const type& a) { return a.symbol(); }
  static std::string text(const type&) { return {}; }
};
// Aggregates, enums, bool, floats: the value itself, so that braces work.
template <int I, ConstType T>
struct HostArg<I, Const<T>> {
  using type = T;
  static constexpr int constant_words = static_cast<int>(const_words<T>()), slots = 0;
  static void put(launch::Frame& f, const T& a) { put_constant(f, a); }
  static Const<T> symbol(const T& a) { return Const<T>(a); }
  static std::string text(const T& a) { return const_text(a); }
};
template <int I, ConstType T>
  requires(std::is_integral_v<T> && !std::same_as<T, bool>)
struct HostArg<I, Const<T>> {
  using type = ConstArg<I, T>;
  static constexpr int constant_words = 1, slots = 0;
  static void put(launch::Frame& f, const type& a) {
    a.check(f, I);
    put_constant(f, a.value());
  }
  static Const<T> symbol(const type& a) { return Const<T>(a.value()); }
  static std::string text(const type& a) { return const_text(a.value()); }
};

template <class P>
inline constexpr bool is_pointer = false;
template <class T>
inline constexpr bool is_pointer<PtrTile<T, 0>> = true;

template <class P>
concept Parameter = requires { typename HostArg<1, P>::type; };

}  // namespace detail

template <class F, class Seq, class... P>
class Kernel;

// A kernel. Launches are counted, ordered by their stream, and compile at the first use of each variant.
template <class F, std::size_t... I, class... P>
class Kernel<F, std::index_sequence<I...>, P...> {
 public:
  Kernel(std::string_view name, const Place& place)
      : state_(std::make_shared<launch::KernelState>(std::string(name), place)) {}

  // Runs grid[0] x grid[1] x grid[2] programs on the stream. Arguments in the order of the lambda's parameters.
  void launch(const Stream& stream, const Grid& grid, typename detail::HostArg<static_cast<int>(I) + 1, P>::type... a,
              const Options& options = {}, const Place& place = std::source_location::current()) const {
    launch::Frame frame(*state_, stream, options, constant_words, place);
    (detail::HostArg<static_cast<int>(I) + 1, P>::put(frame, a), ...);
    const auto arguments = std::tie(a...);
    const auto record = [&] {
      // Braces: the parameters are made from left to right.
      std::tuple<P...> symbols{detail::HostArg<static_cast<int>(I) + 1, P>::symbol(std::get<I>(arguments))...};
      std::apply(F{}, std::move(symbols));
    };
    frame.run(grid, launch::Body(record), &text_of<decltype(arguments)>, &arguments);
  }
  // Compiles in the background what launch() with these arguments runs, without running it: of tensors only type and
  // layout matter, not what is in them. What is wrong with the kernel or the arguments is thrown here, what cannot be
  // compiled is a failure of the handle. The variant stays loaded as long as the handle lives, and is in the cache
  // then.
  Warmup warmup_async(const Device& device, typename detail::HostArg<static_cast<int>(I) + 1, P>::type... a,
                      const Options& options = {}, const Place& place = std::source_location::current()) const {
    const Stream stream = device.stream();
    launch::Frame frame(*state_, stream, options, constant_words, place);
    (detail::HostArg<static_cast<int>(I) + 1, P>::put(frame, a), ...);
    const auto arguments = std::tie(a...);
    const auto record = [&] {
      std::tuple<P...> symbols{detail::HostArg<static_cast<int>(I) + 1, P>::symbol(std::get<I>(arguments))...};
      std::apply(F{}, std::move(symbols));
    };
    return frame.warm(launch::Body(record), &text_of<decltype(arguments)>, &arguments);
  }
  template <class... A>
    requires(sizeof...(A) < sizeof...(P) || sizeof...(A) > sizeof...(P) + 1)
  TILEWEAVE_REFUSED(
      "wrong number of launch arguments: give one for each parameter of the kernel's lambda, then optionally "
      "tw::Options")
  void launch(const Stream&, const Grid&, const A&...) const;

  // The tile IR that the lambda records with these arguments (constants matter, tensors do not): for reading and tests.
  std::string record_text(typename detail::HostArg<static_cast<int>(I) + 1, P>::type... a) const {
    const auto record = [&] {
      std::tuple<P...> symbols{detail::HostArg<static_cast<int>(I) + 1, P>::symbol(a)...};
      std::apply(F{}, std::move(symbols));
    };
    return launch::record_text(state_->name(), state_->place(), launch::Body(record));
  }

  const std::string& name() const { return state_->name(); }
  // Compiled variants so far.
  int variant_count() const { return state_->variant_count(); }

 private:
  static constexpr int constant_words = (0 + ... + detail::HostArg<1, P>::constant_words);
  static_assert((0 + ... + detail::is_pointer<P>) <= launch::max_pointers,
                "a kernel has at most 32 tw::Ptr parameters");
  static_assert(constant_words <= launch::max_constant_words, "a kernel's constants are at most 48 numbers");

  // "128, {64, 64, 32}": the constants, for the context line of errors.
  template <class Arguments>
  static std::string text_of(const void* object) {
    const auto& arguments = *static_cast<const Arguments*>(object);
    std::string s;
    [[maybe_unused]] const auto add = [&](const std::string& t) {
      if (!t.empty()) s += (s.empty() ? "constants " : ", ") + t;
    };
    (add(detail::HostArg<static_cast<int>(I) + 1, P>::text(std::get<I>(arguments))), ...);
    return s;
  }

  std::shared_ptr<launch::KernelState> state_;
};

namespace detail {
template <class M>
struct Signature {
  static constexpr bool good = false, fits = true;
};
template <class C, class R, class... P>
struct Signature<R (C::*)(P...) const> {
  static constexpr bool good = std::is_void_v<R> && (Parameter<std::remove_cvref_t<P>> && ...);
  static constexpr bool fits = [] {
    if constexpr (good) {
      return (0 + ... + HostArg<1, std::remove_cvref_t<P>>::slots) <= runtime::max_slots;
    } else {
      return true;
    }
  }();
  template <class F>
  using kernel = Kernel<F, std::index_sequence_for<P...>, std::remove_cvref_t<P>...>;
};
template <class F>
concept PlainLambda = requires { &F::operator(); };
template <class F>
using signature_of = Signature<decltype(&F::operator())>;
}  // namespace detail

// Makes a kernel from a lambda over tw::View, tw::Ptr, tw::Scalar, tw::Specialized and tw::Const parameters. Nothing is
// recorded or compiled before the first launch.
template <detail::PlainLambda F>
  requires(std::is_empty_v<F> && detail::signature_of<F>::good && detail::signature_of<F>::fits)
auto kernel(std::string_view name, F, const Place& place = std::source_location::current()) {
  return typename detail::signature_of<F>::template kernel<F>(name, place);
}
template <detail::PlainLambda F>
  requires(!std::is_empty_v<F>)
TILEWEAVE_REFUSED("a kernel's lambda captures nothing: pass the value as a tw::Const or tw::Scalar parameter")
int kernel(std::string_view, F);
template <detail::PlainLambda F>
  requires(std::is_empty_v<F> && !detail::signature_of<F>::good)
TILEWEAVE_REFUSED(
    "a kernel's lambda returns void and takes tw::View, tw::Ptr, tw::Scalar, tw::Specialized or tw::Const parameters")
int kernel(std::string_view, F);
template <detail::PlainLambda F>
  requires(std::is_empty_v<F> && detail::signature_of<F>::good && !detail::signature_of<F>::fits)
TILEWEAVE_REFUSED("too many kernel parameters: they take at most 500 slots of 8 bytes, a view of rank R takes 1 + 2R")
int kernel(std::string_view, F);
template <class F>
  requires(!detail::PlainLambda<F>)
TILEWEAVE_REFUSED(
    "a kernel's lambda needs a type for every parameter (no auto): make the kernel a variable template instead")
int kernel(std::string_view, F);

}  // namespace tileweave
