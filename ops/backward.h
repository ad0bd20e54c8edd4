// Gradients of linear and layer_norm with their epilogue: the activation's derivative is computed where its input is.
// Ops of the library, in the language, over tw::grad; nothing of the forward pass need be kept but its operands.
#pragma once

#include "tileweave/dsl/gradient.h"
#include "tileweave/dsl/tensor_expr.h"
#include "tileweave/ops/matmul.h"
#include "tileweave/ops/reduce.h"
#include "tileweave/ops/rows.h"

namespace tileweave::ops {

// What flows to an op's operands: of their shapes and types.
template <class T>
struct OperandGradients {
  Tensor<T> x, weight, bias;
};

namespace detail {

// dz = dy * E'(x . weight^T + bias), [m, n]: the forward product again, the derivative in its epilogue.
template <class T, class E>
inline const auto linear_slope_kernel =
    kernel("linear_slope", [](View<const T, 2> dy, View<const T, 2> x, View<const T, 2> weight, View<const T, 1> bias,
                              View<T, 2> dz, Const<MatmulBlocks> block) {
      using C = compute_t<T>;
      auto [m, n] = tile_id(dz, block->m, block->n);
      Var acc = zeros<C>(block->m, block->n);
      for (auto k : range(0, x.extent(1), block->k)) {
        auto a = load(x, {m, k}, {block->m, block->k});
        auto b = load(weight, {n, k}, {block->n, block->k});
        acc = dot(a, trans(b), acc);
      }
      auto c = expand(load(bias, {n}, {block->n}).template to<C>(), 0);
      Tile<C, 2> z = acc + c;
      auto flow = load(dy, {m, n}, {block->m, block->n}).template to<C>();
      store(dz, {m, n}, (flow * grad(E{})(z)).template to<T>());
    });

// A row's mean and 1 / standard deviation to `stats`, and dx.
template <class T, class E>
inline const auto layer_norm_dx_kernel =
    kernel("layer_norm_dx", [](View<const T, 2> dy, View<const T, 2> x, View<const T, 1> weight, View<const T, 1> bias,
                               View<T, 2> dx, View<compute_t<T>, 2> stats, Scalar<compute_t<T>> eps, Const<int> block) {
      using C = compute_t<T>;
      const auto row = program_id(0);
      const auto length = x.extent(1);
      const auto n = length.template to<C>();
      Var total = zeros<C>(1, block);
      for (auto k : range(0, length, block)) total += load(x, {row, k}, {1, block}).template to<C>();
      Tile<C, 2> mean = sum(total, 1, keep_dims) / n;
      Var squares = zeros<C>(1, block);
      for (auto k : range(0, length, block)) {
        Tile<C, 2> d = load(x, {row, k}, {1, block}).template to<C>() - mean;
        squares += d * d;
      }
      Tile<C, 2> scale = rsqrt(sum(squares, 1, keep_dims) / n + eps);
      store(stats, {row, 0}, mean);
      store(stats, {row, 1}, scale);
      // g = dy E'(z) weight, what flows to the normalised row h: dx = scale (g - mean(g) - h mean(g h)).
      const auto normalised = [&](const auto& k) {
        return Tile<C, 2>((load(x, {row, k}, {1, block}).template to<C>() - mean) * scale);
      };
      const auto flow = [&](const auto& k, const Tile<C, 2>& h) {
        auto w = expand(load(weight, {k}, {block}).template to<C>(), 0);
        auto b = expand(load(bias, {k}, {block}).template to<C>(), 0);
        Tile<C, 2> z = h * w + b;
        return Tile<C, 2>(load(dy, {row, k}, {1, block}).template to<C>() * grad(E{})(z) * w);
      };
      Var flows = zeros<C>(1, block), products = zeros<C>(1, block);
      for (auto k : range(0, length, block)) {
        Tile<C, 2> h = normalised(k), g = flow(k, h);
        flows += g;
        products += g * h;
      }
      Tile<C, 2> mean_flow = sum(flows, 1, keep_dims) / n, mean_product = sum(products, 1, keep_dims) / n;
      for (auto k : range(0, length, block)) {
        Tile<C, 2> h = normalised(k), g = flow(k, h);
        store(dx, {row, k}, (scale * (g - mean_flow - h * mean_product)).template to<T>());
      }
    });

// A block of columns: dweight = sum over rows of dz h, dbias = sum over rows of dz. In a fixed order.
template <class T, class E>
inline const auto layer_norm_dw_kernel =
    kernel("layer_norm_dw", [](View<const T, 2> dy, View<const T, 2> x, View<const T, 1> weight, View<const T, 1> bias,
                               View<const compute_t<T>, 2> stats, View<T, 1> dweight, View<T, 1> dbias, Const<int> rows,
                               Const<int> columns) {
      using C = compute_t<T>;
      const auto at = program_id(0) * columns;
      auto w = expand(load(weight, {at}, {columns}).template to<C>(), 0);
      auto b = expand(load(bias, {at}, {columns}).template to<C>(), 0);
      Var by_weight = zeros<C>(rows, columns), by_bias = zeros<C>(rows, columns);
      for (auto r : range(0, x.extent(0), rows)) {
        auto mean = load(stats, {r, 0}, {rows, 1}), scale = load(stats, {r, 1}, {rows, 1});
        Tile<C, 2> h = (load(x, {r, at}, {rows, columns}).template to<C>() - mean) * scale;
        Tile<C, 2> z = h * w + b;
        Tile<C, 2> dz = load(dy, {r, at}, {rows, columns}).template to<C>() * grad(E{})(z);
        by_weight += dz * h;
        by_bias += dz;
      }
      store(dweight, {at}, sum(by_weight, 0).template to<T>());
      store(dbias, {at}, sum(by_bias, 0).template to<T>());
    });

template <class T>
void require_flow(const Tensor<T>& dy, const runtime::Dims& extents, const char* op, const Place& p) {
  require_tensor(dy, op, "dy", p);
  if (!(dy.any().extents() == extents)) {
    throw_launch_error(p, std::string(op) + ": dy has extents " + runtime::to_string(dy.any().extents()) +
                              ", the op's result " + runtime::to_string(extents));
  }
}

}  // namespace detail

// Gradients of y = epilogue(x . weight^T + bias) where dy flows into y: x is [..., k], weight [n, k], bias [n], dy
// [..., n]. With dz = dy * epilogue'(x . weight^T + bias): dx = dz . weight, dweight = dz^T . x, dbias = sum of dz over
// the rows.
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
OperandGradients<T> linear_backward(const Tensor<T>& dy, const Tensor<T>& x, const Tensor<T>& weight,
                                    const Tensor<T>& bias, const E& = identity,
                                    const Place& p = std::source_location::current()) {
  require_tensor(x, "linear_backward", "x", p);
  detail::require_matrix(weight, "linear_backward", "weight", p);
  const Tensor<T> rows = as_rows(x, p);
  const index_t m = rows.extent(0), n = weight.extent(0), k = weight.extent(1);
  if (rows.extent(1) != k) {
    detail::inner_differs("linear_backward", "x", x.any().extents(), "weight", weight.any().extents(), p);
  }
  require_vector(bias, n, "linear_backward", "bias", p);
  runtime::Dims result = x.any().extents();
  result[result.rank() - 1] = n;
  detail::require_flow(dy, result, "linear_backward", p);
  const Stream stream = x.device().stream();
  Tensor<T> dz = as_rows(dy, p);
  if constexpr (!std::same_as<E, std::remove_cvref_t<decltype(identity)>>) {
    const auto flow = dz;
    dz = Tensor<T>::empty(x.device(), {m, n}, Memory::device, p);
    if (dz.size() != 0) {
      const auto [b, warps] = plan_matmul(x.device().facts(), sizeof(T), m, n, k);
      detail::linear_slope_kernel<T, E>.launch(stream, {cdiv(m, b.m) * cdiv(n, b.n)}, flow, rows, weight, bias, dz, b,
                                               {.warps = warps}, p);
    }
  }
  return {matmul(dz, weight, stream, p).reshape(x.shape(), p), matmul(dz.transpose(), rows, stream, p),
          sum(dz, 0, identity, p)};
}

// Gradients of y = epilogue(layer_norm(x) * weight + bias) where dy flows into y; rows along the last axis.
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
OperandGradients<T> layer_norm_backward(const Tensor<T>& dy, const Tensor<T>& x, const Tensor<T>& weight,
                                        const Tensor<T>& bias, double eps, const E& = identity,
                                        const Place& p = std::source_location::current()) {
  require_tensor(x, "layer_norm_backward", "x", p);
  const Tensor<T> rows = as_rows(x, p);
  const index_t m = rows.extent(0), n = rows.extent(1);
  require_vector(weight, n, "layer_norm_backward", "weight", p);
  require_vector(bias, n, "layer_norm_backward", "bias", p);
  detail::require_flow(dy, x.any().extents(), "layer_norm_backward", p);
  const Tensor<T> flow = as_rows(dy, p);
  const auto dx = Tensor<T>::empty(x.device(), {m, n}, Memory::device, p);
  const auto dweight = Tensor<T>::zeros(x.device(), {n}, Memory::device, p);
  const auto dbias = Tensor<T>::zeros(x.device(), {n}, Memory::device, p);
  if (x.size() != 0) {
    const Stream stream = x.device().stream();
    const auto stats = Tensor<compute_t<T>>::empty(x.device(), {m, 2}, Memory::device, p);
    const int block = static_cast<int>(std::min<index_t>(next_pow2(n), piece_of(n)));
    detail::layer_norm_dx_kernel<T, E>.launch(stream, {m}, flow, rows, weight, bias, dx, stats,
                                              static_cast<compute_t<T>>(eps), block, {}, p);
    const int columns = static_cast<int>(std::min<index_t>(next_pow2(n), 64));
    const int tall = static_cast<int>(std::min<index_t>(next_pow2(m), 32));
    detail::layer_norm_dw_kernel<T, E>.launch(stream, {cdiv(n, columns)}, flow, rows, weight, bias, stats, dweight,
                                              dbias, tall, columns, {}, p);
  }
  return {dx.reshape(x.shape(), p), dweight, dbias};
}

}  // namespace tileweave::ops
