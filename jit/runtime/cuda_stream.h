// A CUDA stream and a CUDA event, ours or somebody else's.
// Behind Stream and Event; order between streams, also while they are captured into a graph, is decided here.
#pragma once

#include <atomic>
#include <memory>

#include "tileweave/jit/runtime/cuda_driver.h"
#include "tileweave/jit/runtime/device_state.h"

namespace tileweave::runtime::cuda {

class CudaDevice;

class CudaEvent final : public EventState {
 public:
  CudaEvent(CudaDevice& device, EventHandle handle);
  ~CudaEvent() override;
  bool has_passed(const Place& place) override;
  void synchronize(const Place& place) override;
  double elapsed_ms_since(EventState& start, const Place& place) override;
  EventHandle handle() const { return handle_; }

 private:
  CudaDevice& owner_;
  EventHandle handle_;
};

class CudaStream final : public StreamState {
 public:
  CudaStream(CudaDevice& device, StreamHandle handle, int priority, bool is_foreign);
  StreamHandle handle() const { return handle_; }
  bool is_foreign() const { return is_foreign_; }
  CudaDevice& owner() const { return owner_; }
  void* native() const override { return handle_; }

  bool is_idle(const Place& place) override;
  void synchronize(const Place& place) override;
  std::shared_ptr<EventState> record(const Place& place) override;
  void wait(EventState& event, const Place& place) override;
  void follow(StreamState& earlier, const Place& place) override;

  bool is_capturing() const;
  // A foreign stream without handles: its owner may destroy it, so what is queued is remembered by an event.
  void retire() noexcept;

 private:
  void wait_on_host(CudaStream& earlier, const Place& place) const;

  CudaDevice& owner_;
  StreamHandle handle_;
  bool is_foreign_;
  std::atomic<EventHandle> last_event_{nullptr};  // of a retired stream
  std::atomic<bool> is_retired_{false};
};

}  // namespace tileweave::runtime::cuda
