// A CUDA device: its primary context, streams, events and memory.
// Behind Device for DeviceKind::cuda; made at its first use, never destroyed. Foreign contexts are left as found.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tileweave/jit/base/fork.h"
#include "tileweave/jit/runtime/cuda_driver.h"
#include "tileweave/jit/runtime/cuda_stream.h"
#include "tileweave/jit/runtime/device_state.h"

namespace tileweave::runtime::cuda {

// While one lives, the context is current on this thread; then what was current before is again.
class ContextScope {
 public:
  ContextScope(const Driver& driver, Context context, const Place& place);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Driver& driver_;
};

// While one lives, calls that a capture of another stream would forbid on this thread are allowed (allocating, loading,
// querying): they do not take part in the capture.
class OutsideCapture {
 public:
  explicit OutsideCapture(const Driver& driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }
  ~OutsideCapture() { driver_.exchange_capture_mode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  const Driver& driver_;
  int mode_ = capture_relaxed;
};

class CudaDevice final : public DeviceState {
 public:
  CudaDevice(const Driver& driver, int ordinal, const Place& place);

  StreamState& default_stream(const Place& place) override;
  StreamState& make_stream(int priority, const Place& place) override;
  StreamState& wrap_stream(void* foreign, const Place& place) override;
  void retire_stream(StreamState& stream) noexcept override;
  void synchronize(const Place& place) override;

  Allocation allocate(std::int64_t bytes, Memory memory, const Place& place) override;
  void free(std::byte* base, std::int64_t bytes, Memory memory, std::span<StreamState* const> users) noexcept override;
  void trim_pool() noexcept override;

  void copy(StreamState& stream, std::byte* target, const std::byte* source, const CopyShape& shape,
            const Place& place) override;
  void fill_zero(StreamState& stream, std::byte* target, std::int64_t bytes, const Place& place) override;
  std::shared_ptr<const LoadedKernel> load(const Binary& binary, const std::string& name, const Place& place) override;

  const Driver& driver() const { return driver_; }
  Context context() const { return context_; }
  // The kernels that may be at fault: those of `stream` first, then those of the others.
  std::string suspects(const StreamState* stream) const;
  // An event without timing from the pool; give it back at once after the wait is queued.
  EventHandle take_event(const Place& place);
  void give_event(EventHandle event) noexcept;
  // "NVIDIA H200 (cuda:0)".
  std::string label() const;

 private:
  StreamHandle create_handle(int priority, const Place& place);
  CudaStream& add_stream(StreamHandle handle, int priority, bool is_foreign);
  void create_pool();
  void free_in_order(DevicePointer p, std::span<StreamState* const> users);
  static bool any_capturing(std::span<StreamState* const> users);
  Result allocate_pooled(DevicePointer* p, std::int64_t bytes, CudaStream& stream);
  CudaStream& allocation_stream(const Place& place);

  const Driver& driver_;
  int device_ = 0;
  Context context_ = nullptr;
  MemoryPool pool_ = nullptr;  // null: the driver or the device has none
  CudaStream* default_ = nullptr;
  int least_priority_ = 0, greatest_priority_ = 0;

  mutable LeafMutex mutex_;               // guards what follows
  CudaStream* side_ = nullptr;            // orders allocations while the default stream is captured
  std::vector<CudaStream*> streams_;      // all
  std::multimap<int, CudaStream*> idle_;  // ours without a handle, by priority
  std::map<StreamHandle, CudaStream*> wrapped_;
  std::vector<EventHandle> events_;
};

}  // namespace tileweave::runtime::cuda
