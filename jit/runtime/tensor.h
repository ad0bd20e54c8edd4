// AnyTensor: an untyped strided array on a device, and its views. A cheap handle that shares its memory.
// Under tw::Tensor<T> (dsl), which adds the element type; kernels receive it as slots (abi.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tileweave/jit/base/dtype.h"
#include "tileweave/jit/base/place.h"
#include "tileweave/jit/runtime/abi.h"
#include "tileweave/jit/runtime/storage.h"
#include "tileweave/jit/runtime/stream.h"

namespace tileweave::runtime {

inline constexpr int max_rank = 6;

// Up to six extents, strides or axes. More than six are counted but not kept, for the error that refuses them.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  constexpr Dims(std::span<const std::int64_t> values) : rank_(static_cast<int>(values.size())) {
    for (int i = 0; i < rank_ && i < max_rank; ++i) v_[i] = values[i];
  }
  Dims(const std::vector<std::int64_t>& values) : Dims(std::span<const std::int64_t>(values)) {}
  static constexpr Dims filled(int rank, std::int64_t value) {
    Dims d;
    d.rank_ = rank;
    for (int i = 0; i < rank && i < max_rank; ++i) d.v_[i] = value;
    return d;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int i) const { return v_[i]; }
  constexpr std::int64_t& operator[](int i) { return v_[i]; }
  constexpr const std::int64_t* begin() const { return v_.data(); }
  constexpr const std::int64_t* end() const { return v_.data() + (rank_ < max_rank ? rank_ : max_rank); }
  constexpr std::span<const std::int64_t> span() const { return {begin(), end()}; }
  constexpr void push_back(std::int64_t v) {
    if (rank_ < max_rank) v_[rank_] = v;
    ++rank_;
  }
  friend constexpr bool operator==(const Dims& a, const Dims& b) { return a.rank_ == b.rank_ && a.v_ == b.v_; }

 private:
  int rank_ = 0;
  std::array<std::int64_t, max_rank> v_{};
};

std::string to_string(const Dims& dims);  // "{2, 3}"

class AnyTensor {
 public:
  // No tensor: rank 0, no storage, not defined().
  AnyTensor() = default;

  // Row-major, uninitialised. Errors: LaunchError (negative extent, more than six axes, over 2^63 bytes, out of
  // memory).
  static AnyTensor empty(const Device& device, Dtype dtype, const Dims& extents, Memory memory = Memory::device,
                         const Place& place = std::source_location::current());
  // All bytes zero, on the device's default stream.
  static AnyTensor zeros(const Device& device, Dtype dtype, const Dims& extents, Memory memory = Memory::device,
                         const Place& place = std::source_location::current());
  // Other people's memory. `pointer` is the element with all indices 0; strides in elements, any sign. The memory is
  // not tracked: its owner keeps it alive and in order with the streams. `release` runs when the last handle goes.
  static AnyTensor wrap(void* pointer, Dtype dtype, const Dims& extents, const Dims& strides, const Device& device,
                        const Place& place = std::source_location::current(), std::function<void()> release = {},
                        Memory memory = Memory::device);
  // A row-major copy of host values on the device; waits until the host memory is free again.
  static AnyTensor from_host(const Device& device, Dtype dtype, const Dims& extents, std::span<const std::byte> values,
                             Memory memory = Memory::device, const Place& place = std::source_location::current());

  bool defined() const { return storage_ != nullptr; }
  Dtype dtype() const { return dtype_; }
  int rank() const { return extents_.rank(); }
  const Dims& extents() const { return extents_; }
  const Dims& strides() const { return strides_; }  // in elements
  std::int64_t extent(int axis) const { return extents_[axis]; }
  std::int64_t stride(int axis) const { return strides_[axis]; }
  std::int64_t size() const { return size_; }  // elements
  std::int64_t byte_offset() const { return byte_offset_; }
  // The address of the element with all indices 0.
  void* data() const { return storage_ ? storage_->base() + byte_offset_ : nullptr; }
  Device device() const { return storage_->device(); }
  Memory memory() const { return storage_->memory(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool is_contiguous() const;  // row-major without gaps; extents of 1 have any stride

  // Writes slots_of_view(rank()) slots and returns the one after.
  std::uint64_t* write_slots(std::uint64_t* out) const {
    *out++ = reinterpret_cast<std::uintptr_t>(data());
    for (int i = 0; i < rank(); ++i) *out++ = static_cast<std::uint64_t>(extents_[i]);
    for (int i = 0; i < rank(); ++i) *out++ = static_cast<std::uint64_t>(strides_[i]);
    return out;
  }
  // To be called for every tensor of a launch, before it: orders the launch after earlier use on other streams.
  void use_on(StreamState& stream, const Place& place) const {
    if (storage_) storage_->use_on(stream, place);
  }

  // Views: the same memory, never a copy. Negative axes count from the end. Errors: LaunchError.
  AnyTensor transpose(int axis_a = -2, int axis_b = -1, const Place& place = std::source_location::current()) const;
  AnyTensor permute(const Dims& axes, const Place& place = std::source_location::current()) const;
  // Elements lo, lo + step, ... before hi, with NumPy's meaning of negative bounds and of bounds past the end.
  // step < 0 walks down from lo; hi = whole_axis is "to the end in the direction of the step".
  AnyTensor slice(int axis, std::int64_t lo, std::int64_t hi, std::int64_t step = 1,
                  const Place& place = std::source_location::current()) const;
  AnyTensor flip(int axis, const Place& place = std::source_location::current()) const;
  AnyTensor select(int axis, std::int64_t index, const Place& place = std::source_location::current()) const;
  AnyTensor squeeze(int axis, const Place& place = std::source_location::current()) const;
  AnyTensor unsqueeze(int axis, const Place& place = std::source_location::current()) const;
  // Extents of 1 grow with stride 0; new axes come in front, as in NumPy.
  AnyTensor broadcast_to(const Dims& extents, const Place& place = std::source_location::current()) const;
  // Refused where the strides do not allow it (help: contiguous()). One extent may be -1.
  AnyTensor reshape(const Dims& extents, const Place& place = std::source_location::current()) const;
  // The same bits as another type of the same size.
  AnyTensor view_as(Dtype dtype, const Place& place = std::source_location::current()) const;

  // Itself where is_contiguous(), else a row-major copy on the device's default stream.
  AnyTensor contiguous(const Place& place = std::source_location::current()) const;
  // Copies all elements; same extents and dtype, any strides, any two devices. On `stream` where given (it must belong
  // to one of the two devices), else on the default stream of this tensor's device.
  void copy_from(const AnyTensor& source, const Stream* stream = nullptr,
                 const Place& place = std::source_location::current()) const;
  void copy_from_host(std::span<const std::byte> values, const Place& place = std::source_location::current()) const;
  // The elements in row-major order; waits for the work that makes them.
  std::vector<std::byte> to_host(const Place& place = std::source_location::current()) const;
  void to_host(std::span<std::byte> out, const Place& place = std::source_location::current()) const;
  // A row-major copy on another device.
  AnyTensor to(const Device& device, const Place& place = std::source_location::current()) const;

 private:
  friend AnyTensor view_of(const AnyTensor& t, const Dims& extents, const Dims& strides, std::int64_t byte_offset);

  std::shared_ptr<Storage> storage_;
  Dims extents_, strides_;
  std::int64_t size_ = 0;
  std::int64_t byte_offset_ = 0;
  Dtype dtype_ = Dtype::f32;
};

// A bound for AnyTensor::slice: to the end in the direction of the step.
inline constexpr std::int64_t whole_axis = INT64_MIN;

// The bytes a tensor can touch, relative to data(): [first, last); both 0 where it has no elements.
struct ByteInterval {
  std::int64_t first = 0, last = 0;
};
ByteInterval bytes_touched(const AnyTensor& t);

// Whether the two can touch one byte in common. False is proven; true may be cautious where both are strided with
// different strides. Tensors on different devices never overlap.
bool may_overlap(const AnyTensor& a, const AnyTensor& b);
// Whether two different indices of one tensor can be the same element (stride 0 with extent over 1, or folded strides).
// False is proven.
bool may_overlap_itself(const AnyTensor& t);
// Same memory, extents, strides and dtype size: an in-place use.
bool is_same_view(const AnyTensor& a, const AnyTensor& b);

// Refuses a tensor that a launch on the stream cannot reach: "x is on NVIDIA H200 (cuda:0), the stream on the CPU".
// `what` names it ("argument 'x'"). Undefined tensors are refused, too.
void require_reachable(const AnyTensor& t, const Stream& stream, const std::string& what, const Place& place);

}  // namespace tileweave::runtime
