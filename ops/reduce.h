// Reductions of whole tensors along an axis: sum, mean, prod, max, min.
// Ops of the library, in the language; the axis goes away in the result.
#pragma once

#include <vector>

#include "tileweave/dsl/control.h"
#include "tileweave/dsl/fusion_group.h"
#include "tileweave/dsl/grid.h"
#include "tileweave/dsl/reduce.h"
#include "tileweave/ops/rows.h"

namespace tileweave::ops {

namespace detail {

// A way to reduce: where it starts, how it takes one more, how lanes join, and what is done with the count at the end.
struct SumOf {
  static constexpr const char* name = "sum";
  template <class C>
  static constexpr C start = C(0);
  template <class A, class B>
  static auto take(const A& a, const B& b) {
    return a + b;
  }
  template <class A>
  static auto join(const A& a, int axis) {
    return tileweave::sum(a, axis);
  }
  template <class A, class N>
  static auto finish(const A& a, const N&) {
    return a;
  }
};
struct MeanOf : SumOf {
  static constexpr const char* name = "mean";
  template <class A, class N>
  static auto finish(const A& a, const N& n) {
    return a / n.template to<elem_t<A>>();
  }
};
struct ProdOf : SumOf {
  static constexpr const char* name = "prod";
  template <class C>
  static constexpr C start = C(1);
  template <class A, class B>
  static auto take(const A& a, const B& b) {
    return a * b;
  }
  template <class A>
  static auto join(const A& a, int axis) {
    return tileweave::prod(a, axis);
  }
};
struct MaxOf : SumOf {
  static constexpr const char* name = "max";
  template <class C>
  static constexpr C start = FloatElem<C> ? static_cast<C>(-std::numeric_limits<C>::infinity()) : lowest<C>;
  template <class A, class B>
  static auto take(const A& a, const B& b) {
    return maximum(a, b);
  }
  template <class A>
  static auto join(const A& a, int axis) {
    return tileweave::max(a, axis);
  }
};
struct MinOf : SumOf {
  static constexpr const char* name = "min";
  template <class C>
  static constexpr C start = FloatElem<C> ? std::numeric_limits<C>::infinity() : highest<C>;
  template <class A, class B>
  static auto take(const A& a, const B& b) {
    return minimum(a, b);
  }
  template <class A>
  static auto join(const A& a, int axis) {
    return tileweave::min(a, axis);
  }
};

// Along the last axis: a row is a program.
template <class How, class T, class E>
inline const auto reduce_rows = kernel(How::name, [](View<const T, 2> x, View<T, 1> y, Const<int> block) {
  using C = compute_t<T>;
  const auto row = program_id(0);
  Var acc = full<C>(How::template start<C>, 1, block);
  for (auto k : range(0, x.extent(1), block)) {
    acc = How::take(acc, load(x, {row, k}, {1, block}).template to<C>());
  }
  store(y, {row}, E{}(How::finish(How::join(acc, 1), x.extent(1))).template to<T>());
});

// Along an axis with others inside it: a block of columns is a program.
template <class How, class T, class E>
inline const auto reduce_columns = kernel(How::name, [](View<const T, 3> x, View<T, 2> y, Const<int> columns) {
  using C = compute_t<T>;
  const auto outer = program_id(0);
  const auto at = program_id(1) * columns;
  Var acc = full<C>(How::template start<C>, 1, columns);
  for (auto k : range(0, x.extent(1))) {
    auto column = reshape(load(x, {outer, k, at}, {1, 1, columns}).template to<C>(), {1, index_t(columns)});
    acc = How::take(acc, column);
  }
  store(y, {outer, at}, E{}(How::finish(acc, x.extent(1))).template to<T>());
});

template <class How, class T, class E>
Tensor<T> reduce_axis(const Tensor<T>& x, int axis, const Stream& stream, const Place& p) {
  require_tensor(x, How::name, "x", p);
  const Around<T> a = around_axis(x, axis, How::name, p);
  std::vector<index_t> left;
  const int at = axis < 0 ? axis + x.dims() : axis;
  for (int i = 0; i < x.dims(); ++i) {
    if (i != at) left.push_back(x.extent(i));
  }
  const auto y = Tensor<T>::empty(x.device(), {a.outer, a.inner}, Memory::device, p);
  if (y.size() == 0) return y.reshape(left, p);
  if (a.inner == 1) {
    const int block = static_cast<int>(std::min<index_t>(next_pow2(a.n), 4096));
    reduce_rows<How, T, E>.launch(stream, {a.outer}, a.x.squeeze(2, p), y.reshape({a.outer}, p), block, {}, p);
  } else {
    const int columns = static_cast<int>(std::min<index_t>(next_pow2(a.inner), 512));
    reduce_columns<How, T, E>.launch(stream, {a.outer, cdiv(a.inner, columns)}, a.x, y, columns, {}, p);
  }
  return y.reshape(left, p);
}

}  // namespace detail

#define TILEWEAVE_AXIS_OP(name, How)                                           \
  template <NumberElem T, Group E>                                             \
  Tensor<T> name(const Tensor<T>& x, int axis, const E&, const Stream& stream, \
                 const Place& p = std::source_location::current()) {           \
    return detail::reduce_axis<detail::How, T, E>(x, axis, stream, p);         \
  }                                                                            \
  template <NumberElem T, Group E = std::remove_cvref_t<decltype(identity)>>   \
  Tensor<T> name(const Tensor<T>& x, int axis, const E& epilogue = identity,   \
                 const Place& p = std::source_location::current()) {           \
    require_tensor(x, #name, "x", p);                                          \
    return name(x, axis, epilogue, x.device().stream(), p);                    \
  }                                                                            \
  template <NumberElem T>                                                      \
  Tensor<T> name(const Tensor<T>& x, int axis, const Stream& stream,           \
                 const Place& p = std::source_location::current()) {           \
    return name(x, axis, identity, stream, p);                                 \
  }

// Narrow floats accumulate in float; integers wrap. Of no elements: 0, NaN (mean), 1, -inf, inf (or the integer
// limits).
TILEWEAVE_AXIS_OP(sum, SumOf)
TILEWEAVE_AXIS_OP(mean, MeanOf)
TILEWEAVE_AXIS_OP(prod, ProdOf)
// NaN if any element is.
TILEWEAVE_AXIS_OP(max, MaxOf)
TILEWEAVE_AXIS_OP(min, MinOf)
#undef TILEWEAVE_AXIS_OP

}  // namespace tileweave::ops
