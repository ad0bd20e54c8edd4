// What stands behind Device, Stream and Event: the interface that each kind of device implements.
// Internal to the runtime, and for boxes that bring a LoadedKernel of their own. All states live for ever: handles,
// memory and faults may refer to them until the process has ended.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tileweave/jit/base/place.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/storage.h"

namespace tileweave {
struct Binary;
}

namespace tileweave::runtime {

class LoadedKernel;

class EventState {
 public:
  virtual ~EventState() = default;
  virtual bool has_passed(const Place& place) = 0;
  virtual void synchronize(const Place& place) = 0;
  virtual double elapsed_ms_since(EventState& start, const Place& place) = 0;
  DeviceState& device() const { return *device_; }

 protected:
  explicit EventState(DeviceState& device) : device_(&device) {}

 private:
  DeviceState* device_;
};

// The last kernels launched on a stream, for the message after a fault. Any thread may note one; no lock.
class LaunchRing {
 public:
  static constexpr std::uint64_t capacity = 64;
  void note(const char* kernel) {
    names_[next_.fetch_add(1, std::memory_order_relaxed) % capacity].store(kernel, std::memory_order_relaxed);
  }
  void clear() { cleared_.store(next_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  // Distinct names since the last clear, the newest first: "softmax, add (2 times)"; empty where there are none.
  std::string text() const;

 private:
  std::array<std::atomic<const char*>, capacity> names_{};
  std::atomic<std::uint64_t> next_{0}, cleared_{0};
};

class StreamState {
 public:
  virtual ~StreamState() = default;
  DeviceState& device() const { return *device_; }
  int priority() const { return priority_; }
  virtual void* native() const { return nullptr; }

  virtual bool is_idle(const Place& place) = 0;
  virtual void synchronize(const Place& place) = 0;
  virtual std::shared_ptr<EventState> record(const Place& place) = 0;
  virtual void wait(EventState& event, const Place& place) = 0;
  // Later work here comes after all work queued on `earlier` so far. Safe while either is being captured.
  virtual void follow(StreamState& earlier, const Place& place) = 0;

  // Handles, counted by Stream; the last one gone, the device may hand the stream out again.
  void retain() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  bool retain_if_held() noexcept {  // false: the last handle has gone
    int n = handles_.load(std::memory_order_relaxed);
    while (n > 0 && !handles_.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) {
    }
    return n > 0;
  }
  void release() noexcept;

  LaunchRing launches;

 protected:
  StreamState(DeviceState& device, int priority) : device_(&device), priority_(priority) {}

 private:
  DeviceState* device_;
  int priority_;
  std::atomic<int> handles_{0};
};

// One copy of `rows` runs of `bytes`, `pitch` apart on each side (rows = 1: a plain copy).
struct CopyShape {
  std::int64_t bytes = 0, rows = 1, target_pitch = 0, source_pitch = 0;
  bool is_target_host = false, is_source_host = false;  // memory of a host device
};

class DeviceState {
 public:
  virtual ~DeviceState() = default;
  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const std::string& target() const { return target_; }
  const DeviceFacts& facts() const { return facts_; }
  bool is_host() const { return kind_ != DeviceKind::cuda; }

  virtual StreamState& default_stream(const Place& place) = 0;
  // Both return a stream with one handle counted for the caller.
  virtual StreamState& make_stream(int priority, const Place& place) = 0;
  virtual StreamState& wrap_stream(void* foreign, const Place& place) = 0;
  virtual void retire_stream(StreamState& stream) noexcept = 0;  // no handle is left
  virtual void synchronize(const Place& place) = 0;

  // `bytes` > 0. Errors: LaunchError, with the bytes asked for. `origin`: the stream in whose order the memory comes;
  // any other stream must follow it before its first use (null: usable everywhere at once).
  struct Allocation {
    std::byte* base;
    StreamState* origin;
  };
  virtual Allocation allocate(std::int64_t bytes, Memory memory, const Place& place) = 0;
  // After all work queued so far on the streams. Never throws: a device in ruins frees nothing.
  virtual void free(std::byte* base, std::int64_t bytes, Memory memory,
                    std::span<StreamState* const> users) noexcept = 0;
  virtual void trim_pool() noexcept = 0;

  // Copies on a stream of this device; target and source may be memory of this device, of another one or of the host.
  // Queued: the caller keeps the memory until the stream has done it.
  virtual void copy(StreamState& stream, std::byte* target, const std::byte* source, const CopyShape& shape,
                    const Place& place) = 0;
  virtual void fill_zero(StreamState& stream, std::byte* target, std::int64_t bytes, const Place& place) = 0;

  virtual std::shared_ptr<const LoadedKernel> load(const Binary& binary, const std::string& name,
                                                   const Place& place) = 0;

 protected:
  DeviceState(DeviceKind kind, int index) : kind_(kind), index_(index) {}
  std::string name_, target_;
  DeviceFacts facts_;

 private:
  DeviceKind kind_;
  int index_;
};

// The host devices; simt by target, one state each.
DeviceState& cpu_device();
DeviceState& interpret_device();
DeviceState& simt_device(const std::string& target, const Place& place);
// CUDA devices (cuda_device.cpp).
int count_cuda_devices() noexcept;
std::string why_no_cuda_device();
int first_usable_cuda_device() noexcept;  // -1: none
DeviceState& cuda_device_state(int index, const Place& place);

}  // namespace tileweave::runtime
