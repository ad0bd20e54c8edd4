// Stream and Event: handles on the states in device_state.h; and the ring of launches that names suspects.
// Between the user and the device's queue.
#include "tileweave/jit/runtime/stream.h"

#include <algorithm>
#include <vector>

#include "tileweave/jit/runtime/device_state.h"

namespace tileweave {

bool Event::has_passed(const Place& place) const { return state_ == nullptr || state_->has_passed(place); }
void Event::synchronize(const Place& place) const {
  if (state_ != nullptr) state_->synchronize(place);
}
double Event::elapsed_ms_since(const Event& start, const Place& place) const {
  return state_ == nullptr || start.state_ == nullptr ? 0 : state_->elapsed_ms_since(*start.state_, place);
}

Stream::Stream(const Device& device, int priority, const Place& place)
    : state_(&device.state().make_stream(priority, place)) {}
Stream Stream::wrap(void* foreign, const Device& device, const Place& place) {
  runtime::StreamState& state = device.state().wrap_stream(foreign, place);
  Stream stream(state);
  state.release();  // the count that wrap_stream took
  return stream;
}
Stream::Stream(runtime::StreamState& state) noexcept : state_(&state) { state.retain(); }
Stream::Stream(const Stream& other) noexcept : state_(other.state_) {
  if (state_ != nullptr) state_->retain();
}
Stream::~Stream() {
  if (state_ != nullptr) state_->release();
}

Device Stream::device() const { return Device(state_->device()); }
int Stream::priority() const { return state_->priority(); }
void* Stream::native() const { return state_->native(); }
bool Stream::is_idle(const Place& place) const { return state_->is_idle(place); }
void Stream::synchronize(const Place& place) const { state_->synchronize(place); }
Event Stream::record(const Place& place) const { return Event(state_->record(place)); }
void Stream::wait(const Event& event, const Place& place) const {
  if (event.state() != nullptr) state_->wait(*event.state(), place);
}

namespace runtime {

void StreamState::release() noexcept {
  if (handles_.fetch_sub(1, std::memory_order_acq_rel) == 1) device_->retire_stream(*this);
}

std::string LaunchRing::text() const {
  const std::uint64_t end = next_.load(std::memory_order_relaxed);
  const std::uint64_t begin =
      std::max(cleared_.load(std::memory_order_relaxed), end > capacity ? end - capacity : std::uint64_t{0});
  struct Count {
    const char* name;
    int times;
  };
  std::vector<Count> counts;
  for (std::uint64_t i = end; i > begin; --i) {
    const char* name = names_[(i - 1) % capacity].load(std::memory_order_relaxed);
    if (name == nullptr) continue;
    const auto seen = std::find_if(counts.begin(), counts.end(), [&](const Count& c) { return c.name == name; });
    if (seen != counts.end()) {
      ++seen->times;
    } else {
      counts.push_back({name, 1});
    }
  }
  std::string text;
  for (const Count& c : counts) {
    text += (text.empty() ? "'" : ", '") + std::string(c.name) + "'";
    if (c.times > 1) text += " (" + std::to_string(c.times) + " times)";
  }
  return text;
}

}  // namespace runtime
}  // namespace tileweave
