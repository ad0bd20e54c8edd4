// Making tensors: sizes checked in 64 bits, memory from the device, other people's memory wrapped.
// Views are in tensor_view.cpp, copies in tensor_copy.cpp.
#include "tileweave/jit/runtime/tensor.h"

#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/tensor_math.h"

namespace tileweave::runtime {

std::string to_string(const Dims& dims) {
  std::string text = "{";
  for (const std::int64_t v : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(v);
  return text + "}";
}

std::string describe(const AnyTensor& t) { return std::string(dtype_name(t.dtype())) + to_string(t.extents()); }

void check_extents(const Dims& extents, const Place& place) {
  if (extents.rank() > max_rank) {
    throw_launch_error(place, "a tensor has at most 6 axes, not " + std::to_string(extents.rank()),
                       "merge axes with reshape, or run over the outer ones in a loop");
  }
  for (const std::int64_t e : extents) {
    if (e < 0) throw_launch_error(place, "extents " + to_string(extents) + ": an extent is negative");
  }
}

std::int64_t checked_size(const Dims& extents, Dtype dtype, const Place& place) {
  check_extents(extents, place);
  std::int64_t size = 1, bytes = 0;
  for (const std::int64_t e : extents) {
    if (e == 0) return 0;
  }
  bool overflow = false;
  for (const std::int64_t e : extents) overflow |= __builtin_mul_overflow(size, e, &size);
  overflow |= __builtin_mul_overflow(size, std::int64_t{dtype_bytes(dtype)}, &bytes);
  if (overflow) {
    throw_launch_error(place, "extents " + to_string(extents) + " of " + std::string(dtype_name(dtype)) +
                                  " pass 9223372036854775807 (2^63 - 1) bytes");
  }
  return size;
}

Dims row_major_strides(const Dims& extents) {
  Dims strides = Dims::filled(extents.rank(), 1);
  std::int64_t step = 1;
  for (int i = extents.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    // An empty tensor may have extents whose product does not fit; nothing is ever addressed in it.
    if (extents[i] > 1 && __builtin_mul_overflow(step, extents[i], &step)) step = 1;
  }
  return strides;
}

ByteInterval checked_interval(const Dims& extents, const Dims& strides, Dtype dtype, const Place& place) {
  ByteInterval r{0, 0};
  for (const std::int64_t e : extents) {
    if (e == 0) return r;
  }
  bool overflow = false;
  for (int i = 0; i < extents.rank(); ++i) {
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(extents[i] - 1, strides[i], &reach);
    overflow |= __builtin_mul_overflow(reach, std::int64_t{dtype_bytes(dtype)}, &reach);
    std::int64_t& end = reach < 0 ? r.first : r.last;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  overflow |= __builtin_add_overflow(r.last, std::int64_t{dtype_bytes(dtype)}, &r.last);
  if (overflow) {
    throw_launch_error(place, "extents " + to_string(extents) + " with strides " + to_string(strides) + " of " +
                                  std::string(dtype_name(dtype)) + " reach past 9223372036854775807 (2^63 - 1) bytes");
  }
  return r;
}

AnyTensor AnyTensor::empty(const Device& device, Dtype dtype, const Dims& extents, Memory memory, const Place& place) {
  AnyTensor t;
  t.size_ = checked_size(extents, dtype, place);
  t.storage_ = Storage::allocate(device, t.size_ * dtype_bytes(dtype), memory, place);
  t.dtype_ = dtype;
  t.extents_ = extents;
  t.strides_ = row_major_strides(extents);
  return t;
}

AnyTensor AnyTensor::zeros(const Device& device, Dtype dtype, const Dims& extents, Memory memory, const Place& place) {
  AnyTensor t = empty(device, dtype, extents, memory, place);
  if (t.size_ == 0) return t;
  StreamState& stream = device.state().default_stream(place);
  t.use_on(stream, place);
  device.state().fill_zero(stream, t.storage_->base(), t.storage_->bytes(), place);
  return t;
}

AnyTensor AnyTensor::wrap(void* pointer, Dtype dtype, const Dims& extents, const Dims& strides, const Device& device,
                          const Place& place, std::function<void()> release, Memory memory) {
  AnyTensor t;
  t.size_ = checked_size(extents, dtype, place);
  if (strides.rank() != extents.rank()) {
    throw_launch_error(place, "wrap: " + std::to_string(extents.rank()) + " extents " + to_string(extents) + " but " +
                                  std::to_string(strides.rank()) + " strides " + to_string(strides));
  }
  if (pointer == nullptr && t.size_ > 0) {
    throw_launch_error(place, "wrap: the pointer is null, but the extents are " + to_string(extents));
  }
  const ByteInterval reach = checked_interval(extents, strides, dtype, place);
  auto* first = static_cast<std::byte*>(pointer);
  t.storage_ = Storage::wrap(t.size_ > 0 ? first + reach.first : first, reach.last - reach.first, device, memory,
                             std::move(release));
  t.byte_offset_ = -reach.first;
  t.dtype_ = dtype;
  t.extents_ = extents;
  t.strides_ = strides;
  return t;
}

AnyTensor AnyTensor::from_host(const Device& device, Dtype dtype, const Dims& extents,
                               std::span<const std::byte> values, Memory memory, const Place& place) {
  AnyTensor t = empty(device, dtype, extents, memory, place);
  t.copy_from_host(values, place);
  return t;
}

bool AnyTensor::is_contiguous() const {
  if (size_ == 0) return true;
  std::int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (extents_[i] != 1 && strides_[i] != step) return false;
    step *= extents_[i];
  }
  return true;
}

void require_defined(const AnyTensor& t, const char* operation, const Place& place) {
  if (!t.defined()) {
    throw_launch_error(place, std::string(operation) + ": there is no tensor (default-constructed or moved from)",
                       "make it with empty, zeros, wrap or an op first");
  }
}

void require_reachable(const AnyTensor& t, const Stream& stream, const std::string& what, const Place& place) {
  if (!t.defined()) {
    throw_launch_error(place, what + " is no tensor (default-constructed or moved from)",
                       "make it with empty, zeros, wrap or an op first");
  }
  const Storage& s = *t.storage();
  const Device here = stream.device();
  if (s.device() == here) return;
  const bool host_can = s.is_host_readable(), cuda_can = !s.device().is_host() && s.memory() != Memory::device;
  if (here.is_host() ? host_can : cuda_can) return;
  const auto text = [](const Device& d) {
    return d.name() + (d.kind() == DeviceKind::cuda ? " (cuda:" + std::to_string(d.index()) + ")" : "");
  };
  throw_launch_error(place, what + " is on " + text(s.device()) + ", the stream on " + text(here),
                     "copy it there with .to(device), or launch on a stream of its device");
}

}  // namespace tileweave::runtime
