// matmul and linear: the accumulator never leaves registers before the epilogue.
// Ops of the library, in the language, over tw::dot.
#pragma once

#include "tileweave/dsl/control.h"
#include "tileweave/dsl/dot.h"
#include "tileweave/dsl/fusion_group.h"
#include "tileweave/dsl/grid.h"
#include "tileweave/ops/matmul_plan.h"
#include "tileweave/ops/rows.h"

namespace tileweave::ops {

namespace detail {

// y = epilogue(x . weight^T + bias); weight is [n, k].
template <class T, class E>
inline const auto linear_kernel = kernel("linear", [](View<const T, 2> x, View<const T, 2> weight,
                                                      View<const T, 1> bias, View<T, 2> y, Const<MatmulBlocks> block) {
  using C = compute_t<T>;
  auto [m, n] = tile_id(y, block->m, block->n);
  Var acc = zeros<C>(block->m, block->n);
  for (auto k : range(0, x.extent(1), block->k)) {
    auto a = load(x, {m, k}, {block->m, block->k});
    auto b = load(weight, {n, k}, {block->n, block->k});
    acc = dot(a, trans(b), acc);
  }
  auto c = expand(load(bias, {n}, {block->n}).template to<C>(), 0);
  store(y, {m, n}, E{}(acc + c).template to<T>());
});

// y = epilogue(a . b); b is [k, n].
template <class T, class E>
inline const auto matmul_kernel =
    kernel("matmul", [](View<const T, 2> a, View<const T, 2> b, View<T, 2> y, Const<MatmulBlocks> block) {
      using C = compute_t<T>;
      auto [m, n] = tile_id(y, block->m, block->n);
      Var acc = zeros<C>(block->m, block->n);
      for (auto k : range(0, a.extent(1), block->k)) {
        acc = dot(load(a, {m, k}, {block->m, block->k}), load(b, {k, n}, {block->k, block->n}), acc);
      }
      store(y, {m, n}, E{}(acc).template to<T>());
    });

template <class T>
void require_matrix(const Tensor<T>& t, const char* op, const char* what, const Place& p) {
  require_tensor(t, op, what, p);
  if (t.dims() != 2) {
    throw_launch_error(p, std::string(op) + ": " + what + " has extents " + runtime::to_string(t.any().extents()) +
                              ", a matrix is needed");
  }
}
[[noreturn]] inline void inner_differs(const char* op, const char* a, const runtime::Dims& ea, const char* b,
                                       const runtime::Dims& eb, const Place& p) {
  throw_launch_error(p, std::string(op) + ": inner extents differ: " + a + " is " + runtime::to_string(ea) + ", " + b +
                            " is " + runtime::to_string(eb));
}

}  // namespace detail

// epilogue(x . weight^T + bias): x is [..., k], weight [n, k], bias [n]; the result [..., n].
template <FloatElem T, Group E>
Tensor<T> linear(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias, const E&, const Stream& stream,
                 const Place& p = std::source_location::current()) {
  require_tensor(x, "linear", "x", p);
  detail::require_matrix(weight, "linear", "weight", p);
  const Tensor<T> rows = as_rows(x, p);
  const index_t m = rows.extent(0), n = weight.extent(0), k = weight.extent(1);
  if (rows.extent(1) != k) {
    detail::inner_differs("linear", "x", x.any().extents(), "weight", weight.any().extents(), p);
  }
  require_vector(bias, n, "linear", "bias", p);
  const auto y = Tensor<T>::empty(x.device(), {m, n}, Memory::device, p);
  if (y.size() != 0) {
    const auto [b, warps] = plan_matmul(x.device().facts(), sizeof(T), m, n, k);
    detail::linear_kernel<T, E>.launch(stream, {cdiv(m, b.m) * cdiv(n, b.n)}, rows, weight, bias, y, b,
                                       {.warps = warps}, p);
  }
  runtime::Dims shape = x.any().extents();
  if (shape.rank() == 0) return y.reshape({n}, p);
  shape[shape.rank() - 1] = n;
  return y.reshape(shape, p);
}
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
Tensor<T> linear(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias, const E& epilogue = identity,
                 const Place& p = std::source_location::current()) {
  require_tensor(x, "linear", "x", p);
  return linear(x, weight, bias, epilogue, x.device().stream(), p);
}
template <FloatElem T>
Tensor<T> linear(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias, const Stream& stream,
                 const Place& p = std::source_location::current()) {
  return linear(x, weight, bias, identity, stream, p);
}

// epilogue(a . b): a is [m, k], b [k, n]. Any strides: pass b.transpose() for a transposed matrix.
template <FloatElem T, Group E>
Tensor<T> matmul(const Tensor<T>& a, const Tensor<T>& b, const E&, const Stream& stream,
                 const Place& p = std::source_location::current()) {
  detail::require_matrix(a, "matmul", "a", p);
  detail::require_matrix(b, "matmul", "b", p);
  const index_t m = a.extent(0), k = a.extent(1), n = b.extent(1);
  if (b.extent(0) != k) detail::inner_differs("matmul", "a", a.any().extents(), "b", b.any().extents(), p);
  const auto y = Tensor<T>::empty(a.device(), {m, n}, Memory::device, p);
  if (y.size() != 0) {
    const auto [blocks, warps] = plan_matmul(a.device().facts(), sizeof(T), m, n, k);
    detail::matmul_kernel<T, E>.launch(stream, {cdiv(m, blocks.m) * cdiv(n, blocks.n)}, a, b, y, blocks,
                                       {.warps = warps}, p);
  }
  return y;
}
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
Tensor<T> matmul(const Tensor<T>& a, const Tensor<T>& b, const E& epilogue = identity,
                 const Place& p = std::source_location::current()) {
  detail::require_matrix(a, "matmul", "a", p);
  return matmul(a, b, epilogue, a.device().stream(), p);
}
template <FloatElem T>
Tensor<T> matmul(const Tensor<T>& a, const Tensor<T>& b, const Stream& stream,
                 const Place& p = std::source_location::current()) {
  return matmul(a, b, identity, stream, p);
}

}  // namespace tileweave::ops
