// Tensor expressions: `y = gelu(a * x + b)` on whole tensors is one kernel, recorded from the expression's type.
// Assigning to a Tensor ends up here; shapes, layout and schedule are worked out in tensor_expr.cpp.
#pragma once

#include <array>

#include "tileweave/dsl/launch.h"
#include "tileweave/dsl/math.h"
#include "tileweave/dsl/tensor.h"

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

 private:
  const record::Raw* leaves_;
  int next_ = 0;
};

// An expression with its type erased.
struct Request {
  const launch::KernelState& kernel;
  const Leaf* leaves;
  int leaf_count;
  Dtype result;
  const void* expression;
  record::Raw (*record)(const void* expression, Context& context);
  const Stream* stream;  // null: the device's default stream
  Place place;
};
// Into a new tensor of the leaves' broadcast shape.
runtime::AnyTensor evaluate(const Request& request);
// Into an existing tensor of that shape.
void evaluate_into(const runtime::AnyTensor& out, const Request& request);

template <class E>
struct Erased {
  static constexpr int capacity = E::nodes;
  std::array<Leaf, static_cast<std::size_t>(capacity)> leaves{};
  int count = 0;

  Erased(const E& e, const Place& p) {
    const auto visit = [&](const auto& leaf, Dtype want) {
      using L = std::remove_cvref_t<decltype(leaf)>;
      Leaf& next = leaves[static_cast<std::size_t>(count++)];
      if constexpr (detail::is_tensor<L>) {
        next = {&leaf.any(), leaf.any().dtype(), 0};
      } else {
        next = number(record::literal(leaf.value), detail::to_bits(leaf.value), dtype_of<typename L::elem>, want, p);
      }
    };
    e.leaves(visit, own_dtype<E>);
  }
  // One kernel for each expression type.
  static const launch::KernelState& kernel(const Place& p) {
    static const launch::KernelState state("tensor expression", p);
    return state;
  }
  static record::Raw record(const void* object, Context& context) {
    return static_cast<const E*>(object)->record(context, own_dtype<E>);
  }
  Request request(const E& e, const Stream* stream, const Place& p) const {
    return {kernel(p), leaves.data(), count, own_dtype<E>, &e, &Erased::record, stream, p};
  }
};

}  // namespace expression

namespace detail {
template <class T, class E>
runtime::AnyTensor evaluate(const E& e, const Place& p) {
  return expression::evaluate(expression::Erased<E>(e, p).request(e, nullptr, p));
}
template <class T, class E>
void evaluate_into(const runtime::AnyTensor& out, const E& e, const Stream* stream, const Place& p) {
  expression::evaluate_into(out, expression::Erased<E>(e, p).request(e, stream, p));
}
}  // namespace detail

}  // namespace tileweave
