// Stream and Event: the order of work on a device. Cheap handles; any thread may use them.
// Launches and copies are queued on a stream; on the host devices they have run when the call returns.
#pragma once

#include <memory>

#include "tileweave/jit/base/place.h"
#include "tileweave/jit/runtime/device.h"

namespace tileweave {

namespace runtime {
class StreamState;
class EventState;
}  // namespace runtime

// A point in a stream. A default-constructed one has always passed.
class Event {
 public:
  Event() = default;
  bool has_passed(const Place& place = std::source_location::current()) const;
  // The host waits for it.
  void synchronize(const Place& place = std::source_location::current()) const;
  // Milliseconds on the device from `start` to this one; waits for both. Both must have been recorded on one device.
  double elapsed_ms_since(const Event& start, const Place& place = std::source_location::current()) const;

  explicit Event(std::shared_ptr<runtime::EventState> state) : state_(std::move(state)) {}
  const std::shared_ptr<runtime::EventState>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::EventState> state_;
};

class Stream {
 public:
  // A new stream. A lower number is a higher priority (0 is the default, -1, -2... go first); the device clamps it.
  // Dropping the last handle while work is pending is fine: the work runs to its end.
  explicit Stream(const Device& device, int priority = 0, const Place& place = std::source_location::current());
  // Somebody else's CUstream, never destroyed by us; it must live while handles to it or unfinished work exist.
  // nullptr is the legacy default stream. On a host device `foreign` must be nullptr.
  static Stream wrap(void* foreign, const Device& device, const Place& place = std::source_location::current());

  Stream(const Stream& other) noexcept;
  Stream(Stream&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  Stream& operator=(Stream other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Stream();

  Device device() const;
  int priority() const;
  void* native() const;  // the CUstream; nullptr on a host device
  bool is_idle(const Place& place = std::source_location::current()) const;
  // The host waits for all work queued so far. Errors: LaunchError (kind context_lost after a fault on the device) with
  // the names of the kernels launched since the last wait.
  void synchronize(const Place& place = std::source_location::current()) const;
  Event record(const Place& place = std::source_location::current()) const;
  // Later work here starts after the event. An event of another device is fine.
  void wait(const Event& event, const Place& place = std::source_location::current()) const;

  runtime::StreamState& state() const { return *state_; }
  explicit Stream(runtime::StreamState& state) noexcept;
  friend bool operator==(const Stream& a, const Stream& b) { return a.state_ == b.state_; }

 private:
  runtime::StreamState* state_;
};

}  // namespace tileweave
