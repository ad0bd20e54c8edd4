// Copies between tensors: on the host, on a CUDA stream, or through the host where a device's copy engine cannot say
// it. Beside tensor.cpp; kernels are not used here, since the runtime has none of its own.
#include <limits>
#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/strided_copy.h"
#include "tileweave/jit/runtime/tensor.h"
#include "tileweave/jit/runtime/tensor_math.h"

namespace tileweave::runtime {
namespace {

// More copies than this in one queue cost more than the way through the host.
constexpr std::int64_t max_queued_copies = 65536;
// The largest pitch a CUDA copy takes (CU_DEVICE_ATTRIBUTE_MAX_PITCH is 2^31 - 1 on every device so far).
constexpr std::int64_t max_pitch = std::numeric_limits<std::int32_t>::max();

bool host_readable(const AnyTensor& t) { return t.storage()->is_host_readable(); }

// A tensor on the CPU over plain memory.
AnyTensor on_host(void* p, const AnyTensor& like, const Dims& strides, const Place& place) {
  return AnyTensor::wrap(p, like.dtype(), like.extents(), strides, Device::cpu(), place);
}

void host_copy(const AnyTensor& target, const AnyTensor& source, const Place& place) {
  target.storage()->wait_for_host(place);
  source.storage()->wait_for_host(place);
  if (may_overlap(target, source)) {
    if (is_same_view(target, source)) return;
    AnyTensor between = AnyTensor::empty(Device::cpu(), source.dtype(), source.extents(), Memory::device, place);
    run_on_host(plan_copy(between, source));
    return run_on_host(plan_copy(target, between));
  }
  run_on_host(plan_copy(target, source));
}

// As plain and pitched copies on the stream; false where that would be too many.
bool queue_copies(StreamState& stream, const StridedCopy& c, CopyShape shape, const Place& place) {
  shape.bytes = c.run_bytes();
  int loops = c.outer_rank();
  if (loops > 0) {
    const StridedCopy::Axis a = c.axes[loops - 1];
    const auto is_pitch = [&](std::int64_t p) { return p >= shape.bytes && p <= max_pitch; };
    if (is_pitch(a.target_stride) && is_pitch(a.source_stride)) {
      shape.rows = a.extent;
      shape.target_pitch = a.target_stride;
      shape.source_pitch = a.source_stride;
      --loops;
    }
  }
  std::int64_t copies = 1;
  for (int k = 0; k < loops; ++k) copies *= c.axes[k].extent;
  if (copies > max_queued_copies) return false;
  for (std::int64_t n = 0; n < copies; ++n) {
    std::byte* target = c.target;
    const std::byte* source = c.source;
    std::int64_t rest = n;
    for (int k = loops - 1; k >= 0; --k) {
      const std::int64_t i = rest % c.axes[k].extent;
      rest /= c.axes[k].extent;
      target += i * c.axes[k].target_stride;
      source += i * c.axes[k].source_stride;
    }
    stream.device().copy(stream, target, source, shape, place);
  }
  return true;
}

// A host tensor with the strides of `t`, holding all bytes between its first and last element.
AnyTensor download(StreamState& stream, const AnyTensor& t, const Place& place) {
  const ByteInterval reach = bytes_touched(t);
  const std::int64_t bytes = reach.last - reach.first;
  AnyTensor buffer = AnyTensor::empty(Device::cpu(), Dtype::u8, {bytes}, Memory::device, place);
  auto* at = static_cast<std::byte*>(buffer.data());
  stream.device().copy(stream, at, static_cast<std::byte*>(t.data()) + reach.first,
                       {.bytes = bytes, .is_target_host = true}, place);
  stream.synchronize(place);
  return AnyTensor::wrap(at - reach.first, t.dtype(), t.extents(), t.strides(), Device::cpu(), place, [buffer] {});
}

void copy_through_host(StreamState& stream, const AnyTensor& target, const AnyTensor& source, const Place& place) {
  const AnyTensor from = host_readable(source) ? source : download(stream, source, place);
  if (host_readable(target)) return host_copy(target, from, place);
  // What lies between the target's elements goes down and up again unchanged.
  const AnyTensor to = target.is_contiguous()
                           ? AnyTensor::empty(Device::cpu(), target.dtype(), target.extents(), Memory::device, place)
                           : download(stream, target, place);
  host_copy(to, from, place);
  const ByteInterval reach = bytes_touched(target);
  stream.device().copy(stream, static_cast<std::byte*>(target.data()) + reach.first,
                       static_cast<const std::byte*>(to.data()) + reach.first,
                       {.bytes = reach.last - reach.first, .is_source_host = true}, place);
  stream.synchronize(place);
}

StreamState& stream_for(const AnyTensor& target, const AnyTensor& source, const Stream* wanted, const Place& place) {
  if (wanted != nullptr && !wanted->device().is_host()) return wanted->state();
  return (target.device().is_host() ? source : target).device().state().default_stream(place);
}

}  // namespace

void AnyTensor::copy_from(const AnyTensor& source, const Stream* stream, const Place& place) const {
  require_defined(*this, "copy_from", place);
  require_defined(source, "copy_from", place);
  if (source.dtype() != dtype() || source.extents() != extents()) {
    throw_launch_error(place, "copy_from: " + describe(source) + " cannot be copied into " + describe(*this),
                       "element types and extents must be equal; see broadcast_to, reshape and casts");
  }
  if (size_ == 0) return;
  if (may_overlap_itself(*this)) {
    throw_launch_error(place, "copy_from: several indices of " + describe(*this) + " with strides " +
                                  to_string(strides_) + " are one element, so it cannot be written");
  }
  if (host_readable(*this) && host_readable(source)) return host_copy(*this, source, place);
  if (is_same_view(*this, source)) return;
  StreamState& queue = stream_for(*this, source, stream, place);
  use_on(queue, place);
  source.use_on(queue, place);
  if (may_overlap(*this, source)) {
    AnyTensor between = empty(device(), dtype_, extents_, Memory::device, place);
    between.use_on(queue, place);
    between.copy_from(source, stream, place);
    return copy_from(between, stream, place);
  }
  const CopyShape sides{.is_target_host = device().is_host(), .is_source_host = source.device().is_host()};
  if (!queue_copies(queue, plan_copy(*this, source), sides, place)) {
    return copy_through_host(queue, *this, source, place);
  }
  // Host memory is the caller's again, and nothing remembers that a stream still uses it.
  if (device().is_host() || source.device().is_host()) queue.synchronize(place);
}

void AnyTensor::copy_from_host(std::span<const std::byte> values, const Place& place) const {
  require_defined(*this, "copy_from_host", place);
  const std::int64_t bytes = size_ * dtype_bytes(dtype_);
  if (static_cast<std::int64_t>(values.size()) != bytes) {
    throw_launch_error(place, "copy_from_host: " + describe(*this) + " takes " + std::to_string(bytes) +
                                  " bytes, not " + std::to_string(values.size()));
  }
  if (bytes == 0) return;
  copy_from(on_host(const_cast<std::byte*>(values.data()), *this, row_major_strides(extents_), place), nullptr, place);
}

void AnyTensor::to_host(std::span<std::byte> out, const Place& place) const {
  require_defined(*this, "to_host", place);
  const std::int64_t bytes = size_ * dtype_bytes(dtype_);
  if (static_cast<std::int64_t>(out.size()) != bytes) {
    throw_launch_error(place, "to_host: " + describe(*this) + " has " + std::to_string(bytes) + " bytes, not " +
                                  std::to_string(out.size()));
  }
  if (bytes == 0) return;
  on_host(out.data(), *this, row_major_strides(extents_), place).copy_from(*this, nullptr, place);
}

std::vector<std::byte> AnyTensor::to_host(const Place& place) const {
  require_defined(*this, "to_host", place);
  std::vector<std::byte> out(static_cast<std::size_t>(size_ * dtype_bytes(dtype_)));
  to_host(out, place);
  return out;
}

AnyTensor AnyTensor::contiguous(const Place& place) const {
  require_defined(*this, "contiguous", place);
  if (is_contiguous()) return *this;
  AnyTensor copy = empty(device(), dtype_, extents_, memory(), place);
  copy.copy_from(*this, nullptr, place);
  return copy;
}

AnyTensor AnyTensor::to(const Device& target, const Place& place) const {
  require_defined(*this, "to", place);
  AnyTensor copy = empty(target, dtype_, extents_, Memory::device, place);
  copy.copy_from(*this, nullptr, place);
  return copy;
}

}  // namespace tileweave::runtime
