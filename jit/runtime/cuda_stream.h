// A CUDA stream and a CUDA event, ours or somebody else's.
// Behind Stream and Event; order between streams, also while they are captured into a graph, is decided here.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tileweave/jit/base/channel.h"
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
  // A launch on this stream that writes records into `buffer` (channel::bytes of device memory, ours from here on).
  struct Records {
    const char* kernel;
    std::shared_ptr<const std::vector<ChannelText>> texts;
    std::byte* buffer;
  };
  void expect_records(const Records& r);
  // Once everything queued is done: prints and frees them. Errors: LaunchError, the first failure noted.
  void deliver_records(const Place& place);
  // A foreign stream without handles: its owner may destroy it, so what is queued is remembered by an event.
  void retire() noexcept;

 private:
  void wait_on_host(CudaStream& earlier, const Place& place) const;

  CudaDevice& owner_;
  StreamHandle handle_;
  bool is_foreign_;
  std::atomic<EventHandle> last_event_{nullptr};  // of a retired stream
  std::atomic<bool> is_retired_{false};
  std::atomic<bool> has_records_{false};
  std::mutex records_mutex_;
  std::vector<Records> records_;
};

}  // namespace tileweave::runtime::cuda
