// softmax along any axis: exp(x - max) / sum, one pass over memory where the axis fits a tile.
// An op of the library, in the language.
#pragma once

#include "tileweave/dsl/control.h"
#include "tileweave/dsl/fusion_group.h"
#include "tileweave/dsl/grid.h"
#include "tileweave/dsl/reduce.h"
#include "tileweave/ops/rows.h"

namespace tileweave::ops {

namespace detail {

// Along the last axis.
template <class T, class E>
inline const auto softmax_rows = kernel("softmax", [](View<const T, 2> x, View<T, 2> y, Const<RowPlan> plan) {
  using C = compute_t<T>;
  const int block = plan->block;
  const auto row = program_id(0);
  if (plan->is_whole) {
    Tile<C, 2> v = load(x, {row, 0}, {1, block}).template to<C>();
    Tile<C, 2> e = exp(v - max(v, 1, keep_dims));
    store(y, {row, 0}, E{}(e / sum(e, 1, keep_dims)).template to<T>());
    return;
  }
  // Lane by lane the running maximum and the sum scaled to it, then both across lanes.
  Var top = full<C>(-std::numeric_limits<C>::infinity(), 1, block);
  Var total = zeros<C>(1, block);
  for (auto k : range(0, x.extent(1), block)) {
    Tile<C, 2> v = load(x, {row, k}, {1, block}).template to<C>();
    Tile<C, 2> higher = maximum(top, v);
    // -inf - -inf is NaN: a lane that saw only -inf has a sum of zero.
    auto scaled = [&](const auto& a) { return where(higher == -inf, C(0), exp(a - higher)); };
    total = total * scaled(Tile<C, 2>(top)) + scaled(v);
    top = higher;
  }
  Tile<C, 2> peak = max(top, 1, keep_dims);
  Tile<C, 2> sums = sum(where(total == 0, C(0), total * exp(top - peak)), 1, keep_dims);
  for (auto k : range(0, x.extent(1), block)) {
    Tile<C, 2> v = load(x, {row, k}, {1, block}).template to<C>();
    store(y, {row, k}, E{}(exp(v - peak) / sums).template to<T>());
  }
});

// Along an axis with others inside it: a block of columns at a time.
template <class T, class E>
inline const auto softmax_columns = kernel("softmax_columns", [](View<const T, 3> x, View<T, 3> y, Const<int> columns) {
  using C = compute_t<T>;
  const auto outer = program_id(0);
  const auto at = program_id(1) * columns;
  const auto column = [&](const auto& k) { return load(x, {outer, k, at}, {1, 1, columns}).template to<C>(); };
  Var top = full<C>(-std::numeric_limits<C>::infinity(), 1, 1, columns);
  for (auto k : range(0, x.extent(1))) top = maximum(top, column(k));
  Tile<C, 3> peak = top;
  Var total = zeros<C>(1, 1, columns);
  for (auto k : range(0, x.extent(1))) total += exp(column(k) - peak);
  Tile<C, 3> sums = total;
  for (auto k : range(0, x.extent(1))) {
    store(y, {outer, k, at}, E{}(exp(column(k) - peak) / sums).template to<T>());
  }
});

}  // namespace detail

// y = epilogue(exp(x - max) / sum(exp(x - max))) along `axis`. A slice of -inf alone, or with a NaN, gives NaN.
template <FloatElem T, Group E>
Tensor<T> softmax(const Tensor<T>& x, int axis, const E&, const Stream& stream,
                  const Place& p = std::source_location::current()) {
  require_tensor(x, "softmax", "x", p);
  const int rank = x.dims(), at = axis < 0 ? axis + rank : axis;
  if (at == rank - 1 && rank > 0) {
    const Tensor<T> rows = as_rows(x, p);
    const auto y = Tensor<T>::empty(x.device(), {rows.extent(0), rows.extent(1)}, Memory::device, p);
    if (y.size() != 0) {
      detail::softmax_rows<T, E>.launch(stream, {rows.extent(0)}, rows, y, plan_row(rows.extent(1)), {}, p);
    }
    return y.reshape(x.shape(), p);
  }
  const Around<T> a = around_axis(x, axis, "softmax", p);
  const auto y = Tensor<T>::empty(x.device(), {a.outer, a.n, a.inner}, Memory::device, p);
  const int columns = static_cast<int>(std::min<index_t>(next_pow2(a.inner), 512));
  if (y.size() != 0) {
    detail::softmax_columns<T, E>.launch(stream, {a.outer, cdiv(a.inner, columns)}, a.x, y, columns, {}, p);
  }
  return y.reshape(x.shape(), p);
}
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
Tensor<T> softmax(const Tensor<T>& x, int axis = -1, const E& epilogue = identity,
                  const Place& p = std::source_location::current()) {
  require_tensor(x, "softmax", "x", p);
  return softmax(x, axis, epilogue, x.device().stream(), p);
}
template <FloatElem T>
Tensor<T> softmax(const Tensor<T>& x, int axis, const Stream& stream,
                  const Place& p = std::source_location::current()) {
  return softmax(x, axis, identity, stream, p);
}

}  // namespace tileweave::ops
