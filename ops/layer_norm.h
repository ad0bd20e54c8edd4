// layer_norm: each row minus its mean, over its standard deviation, times a weight, plus a bias; one pass over memory.
// An op of the library, in the language; the epilogue runs before the row is stored.
#pragma once

#include "tileweave/dsl/control.h"
#include "tileweave/dsl/fusion_group.h"
#include "tileweave/dsl/grid.h"
#include "tileweave/dsl/reduce.h"
#include "tileweave/ops/rows.h"

namespace tileweave::ops {

namespace detail {

template <class T, class E>
inline const auto layer_norm_kernel =
    kernel("layer_norm", [](View<const T, 2> x, View<const T, 1> weight, View<const T, 1> bias, View<T, 2> y,
                            Scalar<compute_t<T>> eps, Const<RowPlan> plan) {
      using C = compute_t<T>;
      const int block = plan->block;
      const auto row = program_id(0);
      const auto n = x.extent(1).template to<C>();
      const auto finish = [&](const auto& centred, const auto& scale, const auto& at) {
        auto w = expand(load(weight, {at}, {block}).template to<C>(), 0);
        auto b = expand(load(bias, {at}, {block}).template to<C>(), 0);
        store(y, {row, at}, E{}(centred * scale * w + b).template to<T>());
      };
      if (plan->is_whole) {
        Tile<C, 2> v = load(x, {row, 0}, {1, block}).template to<C>();
        auto mean = sum(v, 1, keep_dims) / n;
        Tile<C, 2> centred = v - mean;
        auto variance = sum(centred * centred, 1, keep_dims) / n;
        finish(centred, rsqrt(variance + eps), 0);
        return;
      }
      Var total = zeros<C>(1, block);
      for (auto k : range(0, x.extent(1), block)) total += load(x, {row, k}, {1, block}).template to<C>();
      Tile<C, 2> mean = sum(total, 1, keep_dims) / n;
      Var squares = zeros<C>(1, block);
      for (auto k : range(0, x.extent(1), block)) {
        Tile<C, 2> d = load(x, {row, k}, {1, block}).template to<C>() - mean;
        squares += d * d;
      }
      Tile<C, 2> scale = rsqrt(sum(squares, 1, keep_dims) / n + eps);
      for (auto k : range(0, x.extent(1), block)) {
        finish(load(x, {row, k}, {1, block}).template to<C>() - mean, scale, k);
      }
    });

}  // namespace detail

// y[r, c] = epilogue((x[r, c] - mean_r) / sqrt(variance_r + eps) * weight[c] + bias[c]), rows along the last axis.
template <FloatElem T, Group E>
Tensor<T> layer_norm(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias, double eps, const E&,
                     const Stream& stream, const Place& p = std::source_location::current()) {
  require_tensor(x, "layer_norm", "x", p);
  const Tensor<T> rows = as_rows(x, p);
  require_vector(weight, rows.extent(1), "layer_norm", "weight", p);
  require_vector(bias, rows.extent(1), "layer_norm", "bias", p);
  const auto y = Tensor<T>::empty(x.device(), {rows.extent(0), rows.extent(1)}, Memory::device, p);
  if (y.size() != 0) {
    detail::layer_norm_kernel<T, E>.launch(stream, {rows.extent(0)}, rows, weight, bias, y,
                                           static_cast<compute_t<T>>(eps), plan_row(rows.extent(1)), {}, p);
  }
  return y.reshape(x.shape(), p);
}
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
Tensor<T> layer_norm(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias, double eps,
                     const E& epilogue = identity, const Place& p = std::source_location::current()) {
  require_tensor(x, "layer_norm", "x", p);
  return layer_norm(x, weight, bias, eps, epilogue, x.device().stream(), p);
}
template <FloatElem T>
Tensor<T> layer_norm(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias, double eps,
                     const Stream& stream, const Place& p = std::source_location::current()) {
  return layer_norm(x, weight, bias, eps, identity, stream, p);
}

}  // namespace tileweave::ops
