// Storage: one block of memory, counted, and the stream that used it last. Memory: which kind it is.
// Under AnyTensor; the pools behind it are in host_pool.* and cuda_memory.*.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tileweave/jit/base/place.h"
#include "tileweave/jit/runtime/device.h"

namespace tileweave {

// device: the device's own; managed: one address for host and device; pinned: host memory the device can reach.
// On a host device all three are plain host memory.
enum class Memory : std::uint8_t { device, managed, pinned };

namespace runtime {

class StreamState;

class Storage {
 public:
  // Uninitialised memory, 64-byte aligned at least (256 on CUDA); 0 bytes is legal and allocates nothing.
  static std::shared_ptr<Storage> allocate(const Device& device, std::int64_t bytes, Memory memory, const Place& place);
  // Somebody else's memory: never tracked; `release` runs when the last handle goes.
  static std::shared_ptr<Storage> wrap(void* base, std::int64_t bytes, const Device& device, Memory memory,
                                       std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* base() const { return base_; }
  std::int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  Memory memory() const { return memory_; }
  bool is_foreign() const { return is_foreign_; }
  // Whether the host may read it through base().
  bool is_host_readable() const { return device_.is_host() || memory_ != Memory::device; }

  // Orders the work that `stream` gets next after all work that used this storage. The same stream costs a compare.
  void use_on(StreamState& stream, const Place& place) {
    if (last_use_.load(std::memory_order_relaxed) != &stream && is_tracked_) change_stream(stream, place);
  }
  // The host waits until no stream uses it, so that the CPU may read and write it.
  void wait_for_host(const Place& place);

 private:
  Storage(const Device& device, Memory memory, bool is_foreign)
      : device_(device), memory_(memory), is_foreign_(is_foreign), is_tracked_(!is_foreign && !device.is_host()) {}
  void change_stream(StreamState& stream, const Place& place);

  std::byte* base_ = nullptr;
  std::int64_t bytes_ = 0;
  Device device_;
  Memory memory_;
  bool is_foreign_;
  bool is_tracked_;  // work on the host devices has always been done
  std::atomic<StreamState*> last_use_{nullptr};
  std::mutex mutex_;                   // guards used_by_, taken only when the stream changes
  std::vector<StreamState*> used_by_;  // every stream since the allocation; freeing waits for them
  std::function<void()> release_;      // foreign memory only
};

}  // namespace runtime
}  // namespace tileweave
