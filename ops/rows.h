// How ops see a tensor: as rows of its last axis, or as [outer, axis, inner] around any axis; and the element type they
// compute in.
// Shared by the ops that reduce or normalise.
#pragma once

#include <string>
#include <type_traits>

#include "tileweave/dsl/kernel.h"

namespace tileweave::ops {

// Narrow floats compute in float, others in their own type.
template <class T>
using compute_t = std::conditional_t<NarrowFloatType<T>, float, T>;

// Rows longer than this are walked in pieces, of which few rows have long ones: a program per row is all there is then.
inline constexpr index_t longest_whole_row = 16384;
constexpr int piece_of(index_t n) { return n >= 65536 ? 16384 : 4096; }

// How a row is walked: whole, in one tile of `block` lanes, or in pieces of `block`.
struct RowPlan {
  int block = 1;
  bool is_whole = true;
};
// A long row is a tile of exactly its length, so that no lane is idle or masked; short ones of near lengths share a
// kernel.
inline constexpr index_t shortest_exact_row = 512;
inline RowPlan plan_row(index_t n) {
  if (n > longest_whole_row) return {piece_of(n), false};
  return {static_cast<int>(n >= shortest_exact_row ? n : next_pow2(n)), true};
}

// x as [rows, n], n its last axis; copies only where the strides do not allow the view.
template <class T>
Tensor<T> as_rows(const Tensor<T>& x, const Place& p) {
  if (x.dims() == 2) return x;
  const index_t n = x.dims() == 0 ? 1 : x.extent(-1);
  const index_t rows = n == 0 ? 0 : x.size() / n;
  return x.contiguous(p).reshape({rows, n}, p);
}

// x around one axis: [outer, n, inner].
template <class T>
struct Around {
  Tensor<T> x;
  index_t outer = 1, n = 1, inner = 1;
};
template <class T>
Around<T> around_axis(const Tensor<T>& x, int axis, const char* op, const Place& p) {
  const int rank = x.dims(), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    throw_launch_error(p, std::string(op) + ": there is no axis " + std::to_string(axis) + " in a tensor of extents " +
                              runtime::to_string(x.any().extents()));
  }
  Around<T> a;
  for (int i = 0; i < at; ++i) a.outer *= x.extent(i);
  a.n = x.extent(at);
  for (int i = at + 1; i < rank; ++i) a.inner *= x.extent(i);
  a.x = x.contiguous(p).reshape({a.outer, a.n, a.inner}, p);
  return a;
}

template <class T>
void require_tensor(const Tensor<T>& x, const char* op, const char* what, const Place& p) {
  if (!x.defined()) throw_launch_error(p, std::string(op) + ": " + what + " is an empty handle, not a tensor");
}
// A vector of n elements.
template <class T>
void require_vector(const Tensor<T>& v, index_t n, const char* op, const char* what, const Place& p) {
  require_tensor(v, op, what, p);
  if (v.dims() != 1 || v.extent(0) != n) {
    throw_launch_error(p, std::string(op) + ": " + what + " has extents " + runtime::to_string(v.any().extents()) +
                              ", {" + std::to_string(n) + "} is needed");
  }
}

}  // namespace tileweave::ops
