// CUDA memory: a stream-ordered pool of our own where the driver has pools, plain allocation where it has none.
// Part of CudaDevice; freeing never throws and never frees what a captured graph may still use.
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/cuda_device.h"

namespace tileweave::runtime::cuda {

void CudaDevice::create_pool() {
  int supported = 0;
  driver_.device_get_attribute(&supported, memory_pools_supported, device_);
  if (supported == 0 || !driver_.has_pools()) return;
  PoolProperties properties;
  properties.location_id = index();
  if (driver_.mem_pool_create(&pool_, &properties) != success) {
    pool_ = nullptr;
    return;
  }
  // Keep what is freed until trim_pool() or until memory runs out.
  std::uint64_t threshold = UINT64_MAX;
  driver_.mem_pool_set_attribute(pool_, pool_release_threshold, &threshold);
  facts_.stream_ordered_pool = true;
}

CudaStream& CudaDevice::allocation_stream(const Place& place) {
  if (!default_->is_capturing()) return *default_;
  const std::lock_guard lock(mutex_);
  if (side_ == nullptr) {
    side_ = &add_stream(create_handle(0, place), 0, false);
    side_->retain();
  }
  return *side_;
}

Result CudaDevice::allocate_pooled(DevicePointer* p, std::int64_t bytes, CudaStream& stream) {
  const auto n = static_cast<std::size_t>(bytes);
  Result r = driver_.mem_alloc_from_pool_async(p, n, pool_, stream.handle());
  if (r != out_of_memory) return r;
  // What is freed but not yet reusable, or kept by the pool in pieces, may be enough.
  driver_.stream_synchronize(stream.handle());
  driver_.mem_pool_trim_to(pool_, 0);
  return driver_.mem_alloc_from_pool_async(p, n, pool_, stream.handle());
}

DeviceState::Allocation CudaDevice::allocate(std::int64_t bytes, Memory memory, const Place& place) {
  const ContextScope scope(driver_, context_, place);
  const OutsideCapture outside(driver_);
  const auto n = static_cast<std::size_t>(bytes);
  DevicePointer p = 0;
  void* host = nullptr;
  StreamState* origin = nullptr;
  Result r = success;
  const char* call = "mem_alloc";
  if (memory == Memory::managed) {
    r = driver_.mem_alloc_managed(&p, n, mem_attach_global);
    call = "mem_alloc_managed";
  } else if (memory == Memory::pinned) {
    r = driver_.mem_host_alloc(&host, n, mem_host_portable | mem_host_device_map);
    p = reinterpret_cast<DevicePointer>(host);
    call = "mem_host_alloc";
  } else if (pool_ != nullptr) {
    CudaStream& stream = allocation_stream(place);
    r = allocate_pooled(&p, bytes, stream);
    origin = &stream;
    call = "mem_alloc_from_pool_async";
  } else {
    r = driver_.mem_alloc(&p, n);
  }
  if (r == out_of_memory) {
    std::size_t free_bytes = 0, total_bytes = 0;
    driver_.mem_get_info(&free_bytes, &total_bytes);
    throw_launch_error(place, "no memory for " + std::to_string(bytes) + " bytes on " + label(),
                       std::to_string(free_bytes) + " of " + std::to_string(total_bytes) + " bytes are free");
  }
  check(r, call, "allocating " + std::to_string(bytes) + " bytes on " + label(), place,
        r == success ? "" : suspects(nullptr));
  return {reinterpret_cast<std::byte*>(p), origin};
}

bool CudaDevice::any_capturing(std::span<StreamState* const> users) {
  for (const StreamState* s : users) {
    const auto* stream = dynamic_cast<const CudaStream*>(s);
    if (stream != nullptr && stream->is_capturing()) return true;
  }
  return false;
}

// Queues the free on the stream that used the memory last, after what the others have queued.
void CudaDevice::free_in_order(DevicePointer p, std::span<StreamState* const> users) {
  StreamState* home = default_;
  for (StreamState* s : users) {
    const auto* stream = dynamic_cast<const CudaStream*>(s);
    if (stream != nullptr && &stream->owner() == this && !stream->is_foreign()) home = s;
  }
  for (StreamState* s : users) {
    if (s != home) home->follow(*s, {});
  }
  driver_.mem_free_async(p, static_cast<CudaStream*>(home)->handle());
}

void CudaDevice::free(std::byte* base, std::int64_t, Memory memory, std::span<StreamState* const> users) noexcept {
  const auto p = reinterpret_cast<DevicePointer>(base);
  if (any_capturing(users)) return;  // the graph will use the memory: it stays for as long as the process
  if (driver_.ctx_push_current(context_) != success) return;  // the driver has gone, and the memory with it
  try {
    const OutsideCapture outside(driver_);
    if (memory == Memory::device && pool_ != nullptr) {
      free_in_order(p, users);
    } else {
      for (StreamState* s : users) s->synchronize({});
      memory == Memory::pinned ? driver_.mem_free_host(base) : driver_.mem_free(p);
    }
  } catch (const std::exception&) {  // a lost context has lost its memory, too
  }
  Context popped = nullptr;
  driver_.ctx_pop_current(&popped);
}

void CudaDevice::trim_pool() noexcept {
  if (pool_ == nullptr || driver_.ctx_push_current(context_) != success) return;
  driver_.ctx_synchronize();
  driver_.mem_pool_trim_to(pool_, 0);
  Context popped = nullptr;
  driver_.ctx_pop_current(&popped);
}

}  // namespace tileweave::runtime::cuda
