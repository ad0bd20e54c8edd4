// CUDA devices: finding them, their streams and copies. Memory is in cuda_memory.cpp, kernels in cuda_kernel.cpp.
// Behind Device.
#include "tileweave/jit/runtime/cuda_device.h"

#include <algorithm>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/cuda_kernel.h"

namespace tileweave::runtime {
namespace cuda {
namespace {

constexpr int oldest_major = 8;  // sm_80: what code generation makes code for

DevicePointer address(const std::byte* p) { return reinterpret_cast<DevicePointer>(p); }

int attribute(const Driver& d, int device, Attribute which) {
  int value = 0;
  return d.device_get_attribute(&value, which, device) == success ? value : 0;
}

std::string target_of(int major, int minor) {
  if (major == 8) return minor >= 9 ? "sm_89" : minor >= 6 ? "sm_86" : "sm_80";
  return major == 9 && minor == 0 ? "sm_90a" : "sm_90";  // newer devices take the plain sm_90 variant
}

struct Probe {
  int count = 0;
  int first_usable = -1;
  std::string why_not;
};

Probe probe_devices() {
  Probe p;
  const Driver* d = driver();
  if (d == nullptr) {
    p.why_not = why_no_driver();
    return p;
  }
  if (d->device_get_count(&p.count) != success) p.count = 0;
  for (int i = 0; i < p.count && p.first_usable < 0; ++i) {
    int device = 0;
    if (d->device_get(&device, i) == success && attribute(*d, device, compute_major) >= oldest_major)
      p.first_usable = i;
  }
  if (p.count == 0) p.why_not = "the CUDA driver finds no device";
  if (p.count > 0 && p.first_usable < 0) p.why_not = "no CUDA device has compute capability 8.0 or newer";
  return p;
}

const Probe& probe() {
  static constinit Once<const Probe> once;
  return once.get([] { return new Probe(probe_devices()); });
}

}  // namespace

ContextScope::ContextScope(const Driver& driver, Context context, const Place& place) : driver_(driver) {
  check(driver.ctx_push_current(context), "ctx_push_current", "entering the CUDA context", place);
}
ContextScope::~ContextScope() {
  Context popped = nullptr;
  driver_.ctx_pop_current(&popped);
}

CudaDevice::CudaDevice(const Driver& driver, int ordinal, const Place& place)
    : DeviceState(DeviceKind::cuda, ordinal), driver_(driver) {
  const std::string doing = "opening CUDA device " + std::to_string(ordinal);
  check(driver.device_get(&device_, ordinal), "device_get", doing, place);
  char name[256] = "";
  driver.device_get_name(name, sizeof name - 1, device_);
  name_ = name;
  facts_.compute_major = attribute(driver, device_, compute_major);
  facts_.compute_minor = attribute(driver, device_, compute_minor);
  if (facts_.compute_major < oldest_major) {
    throw_launch_error(place,
                       label() + " has compute capability " + std::to_string(facts_.compute_major) + "." +
                           std::to_string(facts_.compute_minor) + "; 8.0 is the oldest that is supported",
                       "use Device::cpu() or a newer device");
  }
  target_ = target_of(facts_.compute_major, facts_.compute_minor);
  std::size_t bytes = 0;
  driver.device_total_mem(&bytes, device_);
  facts_.memory_bytes = static_cast<std::int64_t>(bytes);
  facts_.units = attribute(driver, device_, multiprocessor_count);
  facts_.driver_version = driver.version;
  facts_.max_threads_per_block = attribute(driver, device_, max_threads_per_block);
  facts_.warp_size = attribute(driver, device_, warp_size);
  facts_.smem_per_block_bytes = attribute(driver, device_, max_smem_per_block_optin);
  facts_.l2_bytes = attribute(driver, device_, l2_cache_bytes);
  facts_.max_grid_x = attribute(driver, device_, max_grid_dim_x);
  facts_.max_grid_y = attribute(driver, device_, max_grid_dim_y);

  const OutsideCapture outside(driver);
  check(driver.primary_ctx_retain(&context_, device_), "primary_ctx_retain", doing, place);
  const ContextScope scope(driver, context_, place);
  driver.ctx_get_stream_priority_range(&least_priority_, &greatest_priority_);
  create_pool();
  default_ = &add_stream(create_handle(0, place), 0, false);
  default_->retain();  // the device's own handle
}

std::string CudaDevice::label() const { return name_ + " (cuda:" + std::to_string(index()) + ")"; }

StreamHandle CudaDevice::create_handle(int priority, const Place& place) {
  const OutsideCapture outside(driver_);
  const ContextScope scope(driver_, context_, place);
  StreamHandle handle = nullptr;
  check(driver_.stream_create_with_priority(&handle, stream_non_blocking, priority), "stream_create_with_priority",
        "making a stream on " + label(), place);
  return handle;
}

CudaStream& CudaDevice::add_stream(StreamHandle handle, int priority, bool is_foreign) {
  auto* stream = new CudaStream(*this, handle, priority, is_foreign);
  streams_.push_back(stream);
  return *stream;
}

StreamState& CudaDevice::default_stream(const Place&) { return *default_; }

StreamState& CudaDevice::make_stream(int priority, const Place& place) {
  const int clamped = std::clamp(priority, greatest_priority_, least_priority_);
  const std::lock_guard lock(mutex_);
  CudaStream* stream = nullptr;
  if (const auto found = idle_.find(clamped); found != idle_.end()) {
    stream = found->second;
    idle_.erase(found);
  } else {
    stream = &add_stream(create_handle(clamped, place), clamped, false);
  }
  stream->retain();
  return *stream;
}

StreamState& CudaDevice::wrap_stream(void* foreign, const Place& place) {
  const auto handle = static_cast<StreamHandle>(foreign);
  const std::lock_guard lock(mutex_);
  // Our own handle, given out by native(), is that stream.
  for (CudaStream* s : streams_) {
    if (!s->is_foreign() && s->handle() == handle && s->retain_if_held()) return *s;
  }
  CudaStream*& known = wrapped_[handle];
  if (known != nullptr && known->retain_if_held()) return *known;
  // 0, 1 and 2 stand for the legacy and the per-thread default stream, which have the context that is current.
  if (reinterpret_cast<std::uintptr_t>(foreign) > 2) {
    const ContextScope scope(driver_, context_, place);
    Context home = nullptr;
    const Result r = driver_.stream_get_ctx(handle, &home);
    if (r != success || home != context_) {
      wrapped_.erase(handle);
      check(r, "stream_get_ctx", "wrapping a stream", place);
      throw_launch_error(place, "the wrapped stream does not belong to the primary context of " + label(),
                         "pass the device that the stream was made on, in its primary context");
    }
  }
  known = &add_stream(handle, 0, true);
  known->retain();
  return *known;
}

void CudaDevice::retire_stream(StreamState& state) noexcept {
  auto& stream = static_cast<CudaStream&>(state);
  try {
    const std::lock_guard lock(mutex_);
    if (!stream.is_foreign()) {
      idle_.emplace(stream.priority(), &stream);
      return;
    }
    stream.retire();
    const auto found = wrapped_.find(stream.handle());
    if (found != wrapped_.end() && found->second == &stream) wrapped_.erase(found);
  } catch (const std::bad_alloc&) {  // one stream fewer to hand out again
  }
}

void CudaDevice::synchronize(const Place& place) {
  const ContextScope scope(driver_, context_, place);
  const Result r = driver_.ctx_synchronize();
  check(r, "ctx_synchronize", "waiting for " + label(), place, r == success ? "" : suspects(nullptr));
  std::vector<CudaStream*> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
    for (CudaStream* s : streams) s->launches.clear();
  }
  for (CudaStream* s : streams) s->deliver_records(place);
}

std::string CudaDevice::suspects(const StreamState* stream) const {
  const std::lock_guard lock(mutex_);
  std::string text = stream != nullptr ? stream->launches.text() : "";
  for (const CudaStream* s : streams_) {
    if (s == stream) continue;
    const std::string more = s->launches.text();
    text += (text.empty() || more.empty() ? "" : "; on another stream: ") + more;
  }
  return text;
}

EventHandle CudaDevice::take_event(const Place& place) {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      const EventHandle event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  const ContextScope scope(driver_, context_, place);
  EventHandle event = nullptr;
  check(driver_.event_create(&event, event_disable_timing), "event_create", "making an event on " + label(), place);
  return event;
}

void CudaDevice::give_event(EventHandle event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  } catch (const std::bad_alloc&) {
    driver_.event_destroy(event);
  }
}

void CudaDevice::copy(StreamState& state, std::byte* target, const std::byte* source, const CopyShape& s,
                      const Place& place) {
  const StreamHandle stream = static_cast<CudaStream&>(state).handle();
  const auto bytes = static_cast<std::size_t>(s.bytes);
  const ContextScope scope(driver_, context_, place);
  Result r = success;
  const char* call = "memcpy_async";
  if (s.rows != 1) {
    Copy2D c;
    c.source_type = s.is_source_host ? host_memory : unified_memory;
    c.target_type = s.is_target_host ? host_memory : unified_memory;
    c.source_host = source;
    c.source_device = address(source);
    c.target_host = target;
    c.target_device = address(target);
    c.source_pitch = static_cast<std::size_t>(s.source_pitch);
    c.target_pitch = static_cast<std::size_t>(s.target_pitch);
    c.width_bytes = bytes;
    c.height = static_cast<std::size_t>(s.rows);
    r = driver_.memcpy_2d_async(&c, stream);
    call = "memcpy_2d_async";
  } else if (s.is_source_host) {
    r = driver_.memcpy_htod_async(address(target), source, bytes, stream);
    call = "memcpy_htod_async";
  } else if (s.is_target_host) {
    r = driver_.memcpy_dtoh_async(target, address(source), bytes, stream);
    call = "memcpy_dtoh_async";
  } else {
    r = driver_.memcpy_async(address(target), address(source), bytes, stream);
  }
  check(r, call, "copying " + std::to_string(s.bytes * s.rows) + " bytes on " + label(), place,
        r == success ? "" : suspects(&state));
}

void CudaDevice::fill_zero(StreamState& state, std::byte* target, std::int64_t bytes, const Place& place) {
  const ContextScope scope(driver_, context_, place);
  const Result r = driver_.memset_d8_async(address(target), 0, static_cast<std::size_t>(bytes),
                                           static_cast<CudaStream&>(state).handle());
  check(r, "memset_d8_async", "zeroing " + std::to_string(bytes) + " bytes on " + label(), place,
        r == success ? "" : suspects(&state));
}

std::shared_ptr<const LoadedKernel> CudaDevice::load(const Binary& binary, const std::string& name,
                                                     const Place& place) {
  return CudaKernel::load(*this, binary, name, place);
}

}  // namespace cuda

int count_cuda_devices() noexcept { return cuda::probe().first_usable >= 0 ? cuda::probe().count : 0; }
int first_usable_cuda_device() noexcept { return cuda::probe().first_usable; }
std::string why_no_cuda_device() { return cuda::probe().why_not; }

DeviceState& cuda_device_state(int index, const Place& place) {
  const cuda::Driver& d = cuda::require_driver(place);
  const int count = cuda::probe().count;
  if (index < 0 || index >= count) {
    throw_launch_error(place, "there is no CUDA device " + std::to_string(index),
                       count == 0 ? "the driver finds none; use Device::cpu()"
                                  : "the driver has devices 0 to " + std::to_string(count - 1));
  }
  const FirstUse first_use;
  static constinit std::mutex mutex;
  const std::lock_guard lock(mutex);
  static auto& devices = *new std::map<int, cuda::CudaDevice*>;
  const auto found = devices.find(index);
  if (found != devices.end()) return *found->second;
  auto* device = new cuda::CudaDevice(d, index, place);
  devices.emplace(index, device);
  return *device;
}

}  // namespace tileweave::runtime
