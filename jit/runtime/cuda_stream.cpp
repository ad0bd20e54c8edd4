// Waiting, recording and following on CUDA streams.
// Behind Stream and Event.
#include "tileweave/jit/runtime/cuda_stream.h"

#include <optional>
#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/channel.h"
#include "tileweave/jit/runtime/cuda_device.h"

namespace tileweave::runtime::cuda {

CudaEvent::CudaEvent(CudaDevice& device, EventHandle handle) : EventState(device), owner_(device), handle_(handle) {}

CudaEvent::~CudaEvent() { owner_.driver().event_destroy(handle_); }  // the driver frees it once it has passed

bool CudaEvent::has_passed(const Place& place) {
  const ContextScope scope(owner_.driver(), owner_.context(), place);
  const Result r = owner_.driver().event_query(handle_);
  if (r == not_ready) return false;
  check(r, "event_query", "asking for an event on " + owner_.label(), place,
        r == success ? "" : owner_.suspects(nullptr));
  return true;
}

void CudaEvent::synchronize(const Place& place) {
  const ContextScope scope(owner_.driver(), owner_.context(), place);
  const Result r = owner_.driver().event_synchronize(handle_);
  check(r, "event_synchronize", "waiting for an event on " + owner_.label(), place,
        r == success ? "" : owner_.suspects(nullptr));
}

double CudaEvent::elapsed_ms_since(EventState& start, const Place& place) {
  auto* first = dynamic_cast<CudaEvent*>(&start);
  if (first == nullptr || &first->owner_ != &owner_) {
    throw_launch_error(
        place, "the time between events of " + start.device().name() + " and " + owner_.label() + " has no meaning",
        "record both events on one device");
  }
  first->synchronize(place);
  synchronize(place);
  const ContextScope scope(owner_.driver(), owner_.context(), place);
  float ms = 0;
  check(owner_.driver().event_elapsed_time(&ms, first->handle_, handle_), "event_elapsed_time",
        "measuring time on " + owner_.label(), place);
  return static_cast<double>(ms);
}

CudaStream::CudaStream(CudaDevice& device, StreamHandle handle, int priority, bool is_foreign)
    : StreamState(device, priority), owner_(device), handle_(handle), is_foreign_(is_foreign) {}

bool CudaStream::is_idle(const Place& place) {
  const ContextScope scope(owner_.driver(), owner_.context(), place);
  const EventHandle last = last_event_.load(std::memory_order_acquire);
  if (is_retired_ && last == nullptr) return true;
  const Result r = is_retired_ ? owner_.driver().event_query(last) : owner_.driver().stream_query(handle_);
  if (r == not_ready) return false;
  check(r, "stream_query", "asking for a stream of " + owner_.label(), place,
        r == success ? "" : owner_.suspects(this));
  return true;
}

void CudaStream::synchronize(const Place& place) {
  const ContextScope scope(owner_.driver(), owner_.context(), place);
  const EventHandle last = last_event_.load(std::memory_order_acquire);
  if (is_retired_ && last == nullptr) return;
  const Result r = is_retired_ ? owner_.driver().event_synchronize(last) : owner_.driver().stream_synchronize(handle_);
  check(r, "stream_synchronize", "waiting for " + owner_.label(), place, r == success ? "" : owner_.suspects(this));
  launches.clear();
  deliver_records(place);
}

void CudaStream::expect_records(const Records& r) {
  const std::lock_guard lock(records_mutex_);
  records_.push_back(r);
  has_records_.store(true, std::memory_order_release);
}

// Everything queued is done. The failure of the first launch that has one is thrown, when all have been read.
void CudaStream::deliver_records(const Place& place) {
  if (!has_records_.load(std::memory_order_acquire)) return;
  std::vector<Records> due;
  {
    const std::lock_guard lock(records_mutex_);
    due.swap(records_);
    has_records_.store(false, std::memory_order_release);
  }
  std::optional<ChannelFailure> failure;
  std::vector<std::byte> buffer(static_cast<std::size_t>(channel::bytes));
  for (const Records& r : due) {
    const Driver& d = owner_.driver();
    const auto from = reinterpret_cast<DevicePointer>(r.buffer);
    Result copied = d.memcpy_dtoh_async(buffer.data(), from, buffer.size(), handle_);
    if (copied == success) copied = d.stream_synchronize(handle_);
    StreamState* users[] = {this};
    owner_.free(r.buffer, channel::bytes, Memory::device, users);
    check(copied, "memcpy_dtoh_async", "reading what kernel '" + std::string(r.kernel) + "' printed", place);
    std::optional<ChannelFailure> own = deliver(r.kernel, *r.texts, buffer);
    if (own && !failure) failure = std::move(own);
  }
  if (failure) {
    throw_launch_error(failure->place.known() ? failure->place : place, failure->message, {}, LaunchError::Kind::fault);
  }
}

std::shared_ptr<EventState> CudaStream::record(const Place& place) {
  const ContextScope scope(owner_.driver(), owner_.context(), place);
  EventHandle event = nullptr;
  check(owner_.driver().event_create(&event, event_default), "event_create", "making an event on " + owner_.label(),
        place);
  auto state = std::make_shared<CudaEvent>(owner_, event);
  check(owner_.driver().event_record(event, handle_), "event_record", "recording an event on " + owner_.label(), place);
  return state;
}

void CudaStream::wait(EventState& event, const Place& place) {
  auto* other = dynamic_cast<CudaEvent*>(&event);
  if (other == nullptr) return event.synchronize(place);
  const ContextScope scope(owner_.driver(), owner_.context(), place);
  check(owner_.driver().stream_wait_event(handle_, other->handle(), 0), "stream_wait_event",
        "waiting for an event on " + owner_.label(), place);
}

bool CudaStream::is_capturing() const {
  int status = 0;
  // An error means the legacy stream while another one is captured: it takes no part in that.
  return !is_retired_ && owner_.driver().stream_is_capturing(handle_, &status) == success && status != 0;
}

void CudaStream::follow(StreamState& earlier, const Place& place) {
  auto* other = dynamic_cast<CudaStream*>(&earlier);
  if (other == nullptr) return earlier.synchronize(place);
  CudaDevice& from = other->owner_;
  const Driver& d = owner_.driver();
  const ContextScope here(d, owner_.context(), place);
  // A graph cannot depend on work outside it, so that work has to be over before the graph runs.
  if (is_capturing() && !other->is_capturing()) return wait_on_host(*other, place);
  if (other->is_retired_) {
    const EventHandle last = other->last_event_.load(std::memory_order_acquire);
    if (last == nullptr) return;
    return check(d.stream_wait_event(handle_, last, 0), "stream_wait_event", "ordering streams", place);
  }
  const EventHandle event = from.take_event(place);
  Result r;
  {
    const ContextScope there(d, from.context(), place);
    r = d.event_record(event, other->handle_);
  }
  const Result waited = r == success ? d.stream_wait_event(handle_, event, 0) : success;
  from.give_event(event);  // the wait has taken its state
  check(r, "event_record", "ordering streams of " + from.label(), place, r == success ? "" : from.suspects(other));
  check(waited, "stream_wait_event", "ordering streams of " + owner_.label(), place,
        waited == success ? "" : owner_.suspects(this));
}

void CudaStream::wait_on_host(CudaStream& earlier, const Place& place) const {
  const OutsideCapture outside(owner_.driver());
  if (!earlier.is_idle(place)) earlier.synchronize(place);
}

void CudaStream::retire() noexcept {
  const Driver& d = owner_.driver();
  EventHandle event = nullptr;
  if (!is_capturing() && d.ctx_push_current(owner_.context()) == success) {
    if (d.event_create(&event, event_disable_timing) == success && d.event_record(event, handle_) != success) {
      d.event_destroy(event);
      event = nullptr;
    }
    Context popped = nullptr;
    d.ctx_pop_current(&popped);
  }
  last_event_.store(event, std::memory_order_release);
  is_retired_ = true;
}

}  // namespace tileweave::runtime::cuda
