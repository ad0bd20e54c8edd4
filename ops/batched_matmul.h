// batched_matmul: one product of matrices for each index of a batch axis, in one launch.
// An op of the library, in the language, over tw::dot; its blocks are those of matmul.
#pragma once

#include "tileweave/ops/matmul.h"

namespace tileweave::ops {

namespace detail {

// y[i] = epilogue(a[i] . b[i]).
template <class T, class E>
inline const auto batched_matmul_kernel =
    kernel("batched_matmul", [](View<const T, 3> a, View<const T, 3> b, View<T, 3> y, Const<MatmulBlocks> block) {
      using C = compute_t<T>;
      const auto columns = cdiv(y.extent(2), block->n);
      const auto tile = program_id(0), batch = program_id(1);
      const auto m = tile / columns * block->m, n = tile % columns * block->n;
      Var acc = zeros<C>(block->m, block->n);
      for (auto k : range(0, a.extent(2), block->k)) {
        auto left = reshape(load(a, {batch, m, k}, {1, block->m, block->k}), {block->m, block->k});
        auto right = reshape(load(b, {batch, k, n}, {1, block->k, block->n}), {block->k, block->n});
        acc = dot(left, right, acc);
      }
      store(y, {batch, m, n}, reshape(E{}(acc).template to<T>(), {1, block->m, block->n}));
    });

template <class T>
void require_batch(const Tensor<T>& t, const char* what, const Place& p) {
  require_tensor(t, "batched_matmul", what, p);
  if (t.dims() != 3) {
    throw_launch_error(p, std::string("batched_matmul: ") + what + " has extents " +
                              runtime::to_string(t.any().extents()) + ", [batch, rows, columns] is needed");
  }
}

}  // namespace detail

// epilogue(a[i] . b[i]) for every i: a is [batch, m, k], b [batch, k, n]. Any strides.
template <FloatElem T, Group E = std::remove_cvref_t<decltype(identity)>>
Tensor<T> batched_matmul(const Tensor<T>& a, const Tensor<T>& b, const E& = identity,
                         const Place& p = std::source_location::current()) {
  detail::require_batch(a, "a", p);
  detail::require_batch(b, "b", p);
  const index_t batch = a.extent(0), m = a.extent(1), k = a.extent(2), n = b.extent(2);
  if (b.extent(0) != batch || b.extent(1) != k) {
    throw_launch_error(p, "batched_matmul: a is " + runtime::to_string(a.any().extents()) + ", b is " +
                              runtime::to_string(b.any().extents()) + ": batches or inner extents differ");
  }
  const auto y = Tensor<T>::empty(a.device(), {batch, m, n}, Memory::device, p);
  if (y.size() != 0) {
    DeviceFacts share = a.device().facts();  // of one matrix
    share.units = static_cast<int>(std::max<index_t>(share.units / batch, 1));
    const auto [blocks, warps] = plan_matmul(share, sizeof(T), m, n, k);
    detail::batched_matmul_kernel<T, E>.launch(a.device().stream(), {cdiv(m, blocks.m) * cdiv(n, blocks.n), batch}, a,
                                               b, y, blocks, {.warps = warps}, p);
  }
  return y;
}

}  // namespace tileweave::ops
