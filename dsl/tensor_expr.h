// Tensor expressions: `y = gelu(a * x + b)` on whole tensors is one kernel, recorded from the expression's type.
// Assigning to a Tensor ends up here; shapes, layout and schedule are worked out in tensor_expr.cpp.
#pragma once

#include <array>

#include "tileweave/dsl/launch.h"
#include "tileweave/dsl/math.h"
#include "tileweave/dsl/tensor.h"
#include "tileweave/dsl/trace_graph.h"

namespace tileweave {

namespace expression {

// A leaf of the expression, in the order in which recording meets it: a tensor, or a number of the C++ program, which
// the kernel takes as an argument, so that a new value compiles nothing.
struct Leaf {
  const runtime::AnyTensor* tensor = nullptr;
  Dtype dtype = Dtype::f32;  // of a number: the type of the tensor it meets
  std::uint64_t bits = 0;    // of a number, in that type
};
// The number as an element of `want`. Errors: LaunchError where an integer does not fit.
Leaf number(const record::Literal& v, std::uint64_t bits, Dtype own, Dtype want, const Place& p);

// Gives recording its leaves: the loaded blocks and the scalar parameters.
class Context {
 public:
  Context(const record::Raw* leaves, const Place& p) : place(p), leaves_(leaves) {}
  Place place;
  record::Raw tensor() { return leaves_[next_++]; }
  record::Raw literal(const record::Literal&, Dtype) { return leaves_[next_++]; }
  // The results of a graph on these arguments: recorded once, whichever of them are asked for.
  std::vector<record::Raw> graph(const trace::Graph& g, std::span<const record::Raw> arguments);

 private:
  struct Recorded {
    const trace::Graph* graph;
    std::vector<record::Raw> arguments, results;
  };
  const record::Raw* leaves_;
  int next_ = 0;
  std::vector<Recorded> recorded_;
};

// One result of a launch: an expression with its type erased.
struct Part {
  Dtype result;
  const void* expression;
  record::Raw (*record)(const void* expression, Context& context);
};
// One launch. The leaves are those of its parts, in order.
struct Request {
  const launch::KernelState& kernel;
  const Leaf* leaves;
  int leaf_count;
  const Part* parts;
  int part_count;
  bool has_loops;        // lanes outside of the tensors must be invalid, not padded: a loop might not end there
  const Stream* stream;  // null: the device's default stream
  Place place;
};
// Into new tensors of the leaves' broadcast shape, one for each part.
std::vector<runtime::AnyTensor> evaluate(const Request& request);
// Into existing tensors of that shape.
void evaluate_into(std::span<const runtime::AnyTensor> outs, const Request& request);

// Whether recording E records a loop, as a decorated function may.
template <class E>
struct LoopsIn {
  static bool value() { return false; }
};
template <ir::OpId Op, class... N>
struct LoopsIn<Expr<Op, N...>> {
  static bool value() { return (LoopsIn<N>::value() || ...); }
};
template <class T, bool Saturate, class N>
struct LoopsIn<Cast<T, Saturate, N>> : LoopsIn<N> {};
template <class N, class V>
struct LoopsIn<Like<N, V>> : LoopsIn<N> {};

template <class... E>
struct Erased {
  std::array<Leaf, static_cast<std::size_t>((E::nodes + ...))> leaves{};
  int count = 0;

  Erased(const E&... e, const Place& p) {
    const auto visit = [&](const auto& leaf, Dtype want) {
      using L = std::remove_cvref_t<decltype(leaf)>;
      Leaf& next = leaves[static_cast<std::size_t>(count++)];
      if constexpr (detail::is_tensor<L>) {
        next = {&leaf.any(), leaf.any().dtype(), 0};
      } else {
        next = number(record::literal(leaf.value), detail::to_bits(leaf.value), dtype_of<typename L::elem>, want, p);
      }
    };
    (e.leaves(visit, own_dtype<E>), ...);
  }
  // One kernel for each expression type.
  static const launch::KernelState& kernel(const Place& p) {
    static const launch::KernelState state("tensor expression", p);
    return state;
  }
  template <class X>
  static record::Raw record(const void* object, Context& context) {
    return static_cast<const X*>(object)->record(context, own_dtype<X>);
  }
  static std::array<Part, sizeof...(E)> parts(const E&... e) { return {Part{own_dtype<E>, &e, &Erased::record<E>}...}; }
  Request request(const std::array<Part, sizeof...(E)>& parts, const Stream* stream, const Place& p) const {
    return {kernel(p),
            leaves.data(),
            count,
            parts.data(),
            static_cast<int>(parts.size()),
            (LoopsIn<E>::value() || ...),
            stream,
            p};
  }
};

}  // namespace expression

namespace detail {
template <class T, class E>
runtime::AnyTensor evaluate(const E& e, const Place& p) {
  return expression::evaluate(expression::Erased<E>(e, p).request(expression::Erased<E>::parts(e), nullptr, p))[0];
}
template <class T, class E>
void evaluate_into(const runtime::AnyTensor& out, const E& e, const Stream* stream, const Place& p) {
  expression::evaluate_into({&out, 1}, expression::Erased<E>(e, p).request(expression::Erased<E>::parts(e), stream, p));
}
}  // namespace detail

// Several tensor expressions in one launch: what they share is read and computed once. Each result has the broadcast
// shape of all operands. auto [y, dx] = tw::evaluate(gelu(x), dy * tw::grad(gelu)(x));
template <TensorNode... E>
std::tuple<Tensor<elem_t<E>>...> evaluate(const std::tuple<E...>& expressions,
                                          const Place& p = std::source_location::current()) {
  return std::apply(
      [&](const E&... e) {
        const std::vector<runtime::AnyTensor> r = expression::evaluate(
            expression::Erased<E...>(e..., p).request(expression::Erased<E...>::parts(e...), nullptr, p));
        return [&]<std::size_t... K>(std::index_sequence<K...>) {
          return std::tuple<Tensor<elem_t<E>>...>(Tensor<elem_t<E>>(r[K])...);
        }(std::index_sequence_for<E...>{});
      },
      expressions);
}
template <TensorNode... E>
std::tuple<Tensor<elem_t<E>>...> evaluate(const E&... e) {
  return evaluate(std::tuple<E...>(e...));
}
// The same into existing tensors: tw::assign(std::tuple(y, dx), std::tuple(gelu(x), dy * tw::grad(gelu)(x)), stream).
template <class... T, TensorNode... E>
  requires(sizeof...(T) == sizeof...(E) && (std::same_as<elem_t<E>, typename Tensor<T>::elem> && ...))
void assign(const std::tuple<Tensor<T>...>& outs, const std::tuple<E...>& expressions, const Stream& stream,
            const Place& p = std::source_location::current()) {
  std::apply(
      [&](const E&... e) {
        const auto any = std::apply([](const auto&... t) { return std::vector<runtime::AnyTensor>{t.any()...}; }, outs);
        expression::evaluate_into(
            any, expression::Erased<E...>(e..., p).request(expression::Erased<E...>::parts(e...), &stream, p));
      },
      expressions);
}

}  // namespace tileweave
