// Reduction and host execution of strided copies.
// Under AnyTensor's copies.
#include "tileweave/jit/runtime/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tileweave/jit/runtime/cpu_pool.h"

namespace tileweave::runtime {
namespace {

constexpr std::int64_t piece_bytes = 256 << 10;  // of a long run: one program of the parallel copy

// Runs, cut into pieces where they are long; a program copies one piece.
struct Pieces {
  const StridedCopy* copy;
  std::int64_t per_run;
};

template <class T>
void copy_elements(std::byte* target, const std::byte* source, std::int64_t n, std::int64_t target_step,
                   std::int64_t source_step) {
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(target + i * target_step, source + i * source_step, sizeof(T));
}

// The last axis, element by element.
void copy_axis(const StridedCopy& c, std::byte* target, const std::byte* source) {
  const StridedCopy::Axis a = c.rank > 0 ? c.axes[c.rank - 1] : StridedCopy::Axis{1, 0, 0};
  switch (c.element_bytes) {
    case 1:
      return copy_elements<std::uint8_t>(target, source, a.extent, a.target_stride, a.source_stride);
    case 2:
      return copy_elements<std::uint16_t>(target, source, a.extent, a.target_stride, a.source_stride);
    case 4:
      return copy_elements<std::uint32_t>(target, source, a.extent, a.target_stride, a.source_stride);
    default:
      return copy_elements<std::uint64_t>(target, source, a.extent, a.target_stride, a.source_stride);
  }
}

void copy_piece(const Pieces& p, std::int64_t index) {
  const StridedCopy& c = *p.copy;
  const std::int64_t piece = index % p.per_run;
  std::int64_t row = index / p.per_run;
  std::byte* target = c.target;
  const std::byte* source = c.source;
  for (int k = std::max(0, c.rank - 1) - 1; k >= 0; --k) {
    const std::int64_t i = row % c.axes[k].extent;
    row /= c.axes[k].extent;
    target += i * c.axes[k].target_stride;
    source += i * c.axes[k].source_stride;
  }
  if (!c.has_run()) return copy_axis(c, target, source);
  const std::int64_t begin = piece * piece_bytes, end = std::min(c.run_bytes(), begin + piece_bytes);
  std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
}

void copy_entry(const std::uint64_t* slots, const std::int64_t*, std::int64_t begin, std::int64_t end, void*, void*) {
  const auto& pieces = *reinterpret_cast<const Pieces*>(slots[0]);
  for (std::int64_t i = begin; i < end; ++i) copy_piece(pieces, i);
}

// The slowest in the target first; at most six, so by insertion.
void sort_axes(StridedCopy& c) {
  const auto goes_before = [](const StridedCopy::Axis& a, const StridedCopy::Axis& b) {
    return a.target_stride != b.target_stride ? a.target_stride > b.target_stride
                                              : std::abs(a.source_stride) > std::abs(b.source_stride);
  };
  for (int i = 1; i < c.rank; ++i) {
    for (int k = i; k > 0 && goes_before(c.axes[k], c.axes[k - 1]); --k) std::swap(c.axes[k], c.axes[k - 1]);
  }
}

}  // namespace

std::int64_t StridedCopy::elements() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= axes[i].extent;
  return n;
}

bool StridedCopy::has_run() const {
  return rank > 0 && axes[rank - 1].target_stride == element_bytes && axes[rank - 1].source_stride == element_bytes;
}

std::int64_t StridedCopy::run_bytes() const {
  return has_run() ? axes[rank - 1].extent * element_bytes : element_bytes;
}

StridedCopy plan_copy(const AnyTensor& target, const AnyTensor& source) {
  StridedCopy c;
  c.element_bytes = dtype_bytes(target.dtype());
  c.target = static_cast<std::byte*>(target.data());
  c.source = static_cast<const std::byte*>(source.data());
  for (int i = 0; i < target.rank(); ++i) {
    if (target.extent(i) == 1) continue;
    StridedCopy::Axis a{target.extent(i), target.stride(i) * c.element_bytes, source.stride(i) * c.element_bytes};
    if (a.target_stride < 0 && a.extent > 0) {  // walk it the other way
      c.target += (a.extent - 1) * a.target_stride;
      c.source += (a.extent - 1) * a.source_stride;
      a.target_stride = -a.target_stride;
      a.source_stride = -a.source_stride;
    }
    c.axes[c.rank++] = a;
  }
  sort_axes(c);
  // Merge an axis with the one inside it where both sides go on without a gap.
  int kept = 0;
  for (int i = 0; i < c.rank; ++i) {
    const StridedCopy::Axis inner = c.axes[i];
    StridedCopy::Axis* outer = kept > 0 ? &c.axes[kept - 1] : nullptr;
    if (outer != nullptr && outer->target_stride == inner.extent * inner.target_stride &&
        outer->source_stride == inner.extent * inner.source_stride) {
      *outer = {outer->extent * inner.extent, inner.target_stride, inner.source_stride};
    } else {
      c.axes[kept++] = inner;
    }
  }
  c.rank = kept;
  return c;
}

void run_on_host(const StridedCopy& copy) {
  if (copy.elements() == 0) return;
  Pieces pieces{&copy, copy.has_run() ? (copy.run_bytes() - 1) / piece_bytes + 1 : 1};
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < copy.rank; ++i) rows *= copy.axes[i].extent;
  const std::uint64_t slot = reinterpret_cast<std::uintptr_t>(&pieces);
  const std::int64_t grid[3] = {rows * pieces.per_run, 1, 1};
  if (copy.elements() * copy.element_bytes < piece_bytes) {
    copy_entry(&slot, grid, 0, grid[0], nullptr, nullptr);
  } else {
    run_on_all_cores({copy_entry, &slot, grid, 0, nullptr}, grid[0]);
  }
}

}  // namespace tileweave::runtime
