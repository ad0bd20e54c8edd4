// Views: the same memory with other extents, strides and offset.
// Beside tensor.cpp; nothing here touches memory.
#include <algorithm>
#include <limits>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/tensor.h"
#include "tileweave/jit/runtime/tensor_math.h"

namespace tileweave::runtime {
namespace {

// An axis counted from the front; -1 is the last.
int checked_axis(const AnyTensor& t, int axis, int rank, const char* operation, const Place& place) {
  const int from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) {
    throw_launch_error(
        place, std::string(operation) + ": axis " + std::to_string(axis) + " of " + describe(t) + " is out of range",
        rank > 0 ? "axes are " + std::to_string(-rank) + " to " + std::to_string(rank - 1) : "");
  }
  return from_front;
}

// New extents over the same memory whose row-major walk is that of the old ones, or false.
// Axes of the old tensor that lie in one run of memory are matched with groups of new ones.
bool strides_for(const AnyTensor& t, const Dims& to, Dims& strides) {
  Dims extents, steps;  // without axes of extent 1
  for (int i = 0; i < t.rank(); ++i) {
    if (t.extent(i) == 1) continue;
    extents.push_back(t.extent(i));
    steps.push_back(t.stride(i));
  }
  strides = Dims::filled(to.rank(), 1);
  int old_axis = 0, new_axis = 0;
  while (old_axis < extents.rank() && new_axis < to.rank()) {
    std::int64_t old_size = extents[old_axis], new_size = to[new_axis];
    int old_end = old_axis + 1, new_end = new_axis + 1;
    while (old_size != new_size) {
      if (old_size < new_size) {
        if (old_end == extents.rank()) return false;
        if (steps[old_end - 1] != extents[old_end] * steps[old_end]) return false;
        old_size *= extents[old_end++];
      } else {
        if (new_end == to.rank()) return false;
        new_size *= to[new_end++];
      }
    }
    std::int64_t step = steps[old_end - 1];
    for (int i = new_end - 1; i >= new_axis; --i) {
      strides[i] = step;
      step *= to[i];
    }
    old_axis = old_end;
    new_axis = new_end;
  }
  return true;
}

}  // namespace

AnyTensor view_of(const AnyTensor& t, const Dims& extents, const Dims& strides, std::int64_t byte_offset) {
  AnyTensor v = t;
  v.extents_ = extents;
  v.strides_ = strides;
  v.byte_offset_ = byte_offset;
  v.size_ = 1;
  for (const std::int64_t e : extents) v.size_ = e == 0 ? 0 : v.size_ * e;
  return v;
}

AnyTensor AnyTensor::transpose(int axis_a, int axis_b, const Place& place) const {
  require_defined(*this, "transpose", place);
  const int a = checked_axis(*this, axis_a, rank(), "transpose", place);
  const int b = checked_axis(*this, axis_b, rank(), "transpose", place);
  Dims extents = extents_, strides = strides_;
  std::swap(extents[a], extents[b]);
  std::swap(strides[a], strides[b]);
  return view_of(*this, extents, strides, byte_offset_);
}

AnyTensor AnyTensor::permute(const Dims& axes, const Place& place) const {
  require_defined(*this, "permute", place);
  Dims extents, strides;
  bool used[max_rank] = {};
  bool wrong = axes.rank() != rank();
  for (int i = 0; i < rank() && !wrong; ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + rank() : axes[i];
    wrong = axis < 0 || axis >= rank() || used[axis];
    if (wrong) break;
    used[axis] = true;
    extents.push_back(extents_[static_cast<int>(axis)]);
    strides.push_back(strides_[static_cast<int>(axis)]);
  }
  if (wrong) {
    throw_launch_error(place,
                       "permute: axes " + to_string(axes) + " do not name each axis of " + describe(*this) + " once");
  }
  return view_of(*this, extents, strides, byte_offset_);
}

AnyTensor AnyTensor::slice(int axis, std::int64_t lo, std::int64_t hi, std::int64_t step, const Place& place) const {
  require_defined(*this, "slice", place);
  const int a = checked_axis(*this, axis, rank(), "slice", place);
  if (step == 0) throw_launch_error(place, "slice: the step along axis " + std::to_string(axis) + " is 0");
  const std::int64_t n = extents_[a];
  // Bounds as in NumPy: negative ones count from the end, then both are clipped to what a walk can meet.
  const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? n : n - 1;
  const auto clip = [&](std::int64_t i) { return std::clamp(i < 0 ? i + n : i, lowest, highest); };
  const std::int64_t first = clip(lo);
  const std::int64_t last = hi == whole_axis ? (step > 0 ? n : -1) : clip(hi);
  const std::int64_t distance = step > 0 ? last - first : first - last;
  // |step| without overflow for the smallest integer.
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  Dims extents = extents_, strides = strides_;
  extents[a] = distance <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride + 1);
  // With one element or none the stride is never used; with more, step times stride stays inside the tensor.
  strides[a] = extents[a] > 1 ? strides_[a] * step : strides_[a];
  const std::int64_t skipped = extents[a] > 0 ? first * strides_[a] * dtype_bytes(dtype_) : 0;
  return view_of(*this, extents, strides, byte_offset_ + skipped);
}

AnyTensor AnyTensor::flip(int axis, const Place& place) const { return slice(axis, -1, whole_axis, -1, place); }

AnyTensor AnyTensor::select(int axis, std::int64_t index, const Place& place) const {
  require_defined(*this, "select", place);
  const int a = checked_axis(*this, axis, rank(), "select", place);
  const std::int64_t i = index < 0 ? index + extents_[a] : index;
  if (i < 0 || i >= extents_[a]) {
    throw_launch_error(place, "select: index " + std::to_string(index) + " of axis " + std::to_string(axis) + " of " +
                                  describe(*this) + " is out of range");
  }
  Dims extents, strides;
  for (int k = 0; k < rank(); ++k) {
    if (k == a) continue;
    extents.push_back(extents_[k]);
    strides.push_back(strides_[k]);
  }
  return view_of(*this, extents, strides, byte_offset_ + i * strides_[a] * dtype_bytes(dtype_));
}

AnyTensor AnyTensor::squeeze(int axis, const Place& place) const {
  require_defined(*this, "squeeze", place);
  const int a = checked_axis(*this, axis, rank(), "squeeze", place);
  if (extents_[a] != 1) {
    throw_launch_error(place, "squeeze: axis " + std::to_string(axis) + " of " + describe(*this) + " has extent " +
                                  std::to_string(extents_[a]) + ", not 1");
  }
  return select(a, 0, place);
}

AnyTensor AnyTensor::unsqueeze(int axis, const Place& place) const {
  require_defined(*this, "unsqueeze", place);
  const int a = checked_axis(*this, axis, rank() + 1, "unsqueeze", place);
  Dims extents, strides;
  for (int k = 0; k <= rank(); ++k) {
    extents.push_back(k == a ? 1 : extents_[k - (k > a)]);
    strides.push_back(k == a ? 1 : strides_[k - (k > a)]);
  }
  check_extents(extents, place);
  return view_of(*this, extents, strides, byte_offset_);
}

AnyTensor AnyTensor::broadcast_to(const Dims& extents, const Place& place) const {
  require_defined(*this, "broadcast_to", place);
  checked_size(extents, dtype_, place);
  const int added = extents.rank() - rank();
  Dims strides = Dims::filled(extents.rank(), 0);
  bool fits = added >= 0;
  for (int i = 0; i < rank() && fits; ++i) {
    const bool same = extents_[i] == extents[i + added];
    fits = same || extents_[i] == 1;
    strides[i + added] = same ? strides_[i] : 0;
  }
  if (!fits) {
    throw_launch_error(place, "broadcast_to: " + describe(*this) + " does not broadcast to " + to_string(extents),
                       "extents must be equal or 1, counted from the last axis");
  }
  return view_of(*this, extents, strides, byte_offset_);
}

AnyTensor AnyTensor::reshape(const Dims& wanted, const Place& place) const {
  require_defined(*this, "reshape", place);
  Dims extents = wanted;
  int open = -1;
  std::int64_t rest = 1;
  for (int i = 0; i < wanted.rank() && i < max_rank; ++i) {
    if (wanted[i] == -1 && open < 0) {
      open = i;
    } else if (wanted[i] >= 0 && __builtin_mul_overflow(rest, wanted[i], &rest)) {
      rest = std::numeric_limits<std::int64_t>::max();
    }
  }
  if (open >= 0) extents[open] = rest > 0 ? size_ / rest : 0;
  if (checked_size(extents, dtype_, place) != size_) {
    throw_launch_error(place, "reshape: " + describe(*this) + " has " + std::to_string(size_) + " elements, " +
                                  to_string(wanted) + " does not");
  }
  Dims strides = row_major_strides(extents);
  if (size_ > 0 && !strides_for(*this, extents, strides)) {
    throw_launch_error(place,
                       "reshape: " + describe(*this) + " with strides " + to_string(strides_) + " cannot become " +
                           to_string(wanted) + " without a copy",
                       "call .contiguous() first");
  }
  return view_of(*this, extents, strides, byte_offset_);
}

AnyTensor AnyTensor::view_as(Dtype dtype, const Place& place) const {
  require_defined(*this, "view_as", place);
  if (dtype_bytes(dtype) != dtype_bytes(dtype_)) {
    throw_launch_error(place, "view_as: " + std::string(dtype_name(dtype_)) + " and " + std::string(dtype_name(dtype)) +
                                  " have different sizes");
  }
  AnyTensor v = *this;
  v.dtype_ = dtype;
  return v;
}

}  // namespace tileweave::runtime
