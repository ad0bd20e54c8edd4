// rms_norm: each row over its root mean square, times a weight; one pass over memory.
// An op of the library, in the language.
#pragma once

#include "tileweave/dsl/control.h"
#include "tileweave/dsl/fusion_group.h"
#include "tileweave/dsl/grid.h"
#include "tileweave/dsl/reduce.h"
#include "tileweave/ops/rows.h"

namespace tileweave::ops {

namespace detail {

template <class T, class E>
inline const auto rms_norm_kernel = kernel("rms_norm", [](View<const T, 2> x, View<const T, 1> weight, View<T, 2> y,
                                                          Scalar<compute_t<T>> eps, Const<RowPlan> plan) {
  using C = compute_t<T>;
  const int block = plan->block;
  const auto row = program_id(0);
  const auto n = x.extent(1).template to<C>();
  const auto finish = [&](const auto& v, const auto& scale, const auto& at) {
    auto w = expand(load(weight, {at}, {block}).template to<C>(), 0);
    store(y, {row, at}, E{}(v * scale * w).template to<T>());
  };
  if (plan->is_whole) {
    Tile<C, 2> v = load(x, {row, 0}, {1, block}).template to<C>();
    finish(v, rsqrt(sum(v * v, 1, keep_dims) / n + eps), 0);
    return;
  }
  Var squares = zeros<C>(1, block);
  for (auto k : range(0, x.extent(1), block)) {
    Tile<C, 2> v = load(x, {row, k}, {1, block}).template to<C>();
    squares += v * v;
  }
  Tile<C, 2> scale = rsqrt(sum(squares, 1, keep_dims) / n + eps);
  for (auto k : range(0, x.extent(1), block)) finish(load(x, {row, k}, {1, block}).template to<C>(), scale, k);
});

}  // namespace detail

// y[r, c] = epilogue(x[r, c] / sqrt(mean_c(x^2) + eps) * weight[c]), rows along the last axis.
template <FloatElem T, Group E>
Tensor<T> rms_norm(const Tensor<T>& x, const Tensor<T>& weight, double eps, const E&, const Stream& stream,
                   const Place& p = std::source_location::current()) {
  require_tensor(x, "rms_norm", "x", p);
  const Tensor<T> rows = as_rows(x, p);
  require_vector(weight, rows.extent(1), "rms_norm", "weight", p);
  const auto y = Tensor<T>::empty(x.device(), {rows.extent(0), rows.extent(1)}, Memory::device, p);
  if (y.size() != 0) {
    detail::rms_norm_kernel<T, E>.launch(stream, {rows.extent(0)}, rows, weight, y, static_cast<compute_t<T>>(eps),
                                         plan_row(rows.extent(1)), {}, p);
  }
  return y.reshape(x.shape(), p);
}
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
Tensor<T> rms_norm(const Tensor<T>& x, const Tensor<T>& weight, double eps, const E& epilogue = identity,
                   const Place& p = std::source_location::current()) {
  require_tensor(x, "rms_norm", "x", p);
  return rms_norm(x, weight, eps, epilogue, x.device().stream(), p);
}
template <FloatElem T>
Tensor<T> rms_norm(const Tensor<T>& x, const Tensor<T>& weight, double eps, const Stream& stream,
                   const Place& p = std::source_location::current()) {
  return rms_norm(x, weight, eps, identity, stream, p);
}

}  // namespace tileweave::ops
