// Allocation, wrapping and the order of use of one block of memory.
// Under AnyTensor.
#include "tileweave/jit/runtime/storage.h"

#include <algorithm>
#include <utility>

#include "tileweave/jit/runtime/device_state.h"

namespace tileweave::runtime {

std::shared_ptr<Storage> Storage::allocate(const Device& device, std::int64_t bytes, Memory memory,
                                           const Place& place) {
  std::shared_ptr<Storage> s(new Storage(device, memory, false));
  if (bytes == 0) return s;
  const DeviceState::Allocation a = device.state().allocate(bytes, memory, place);
  s->base_ = a.base;
  s->bytes_ = bytes;
  s->last_use_ = a.origin;
  if (a.origin != nullptr) s->used_by_.push_back(a.origin);
  return s;
}

std::shared_ptr<Storage> Storage::wrap(void* base, std::int64_t bytes, const Device& device, Memory memory,
                                       std::function<void()> release) {
  std::shared_ptr<Storage> s(new Storage(device, memory, true));
  s->base_ = static_cast<std::byte*>(base);
  s->bytes_ = bytes;
  s->release_ = std::move(release);
  return s;
}

Storage::~Storage() {
  if (!is_foreign_ && base_ != nullptr) device_.state().free(base_, bytes_, memory_, used_by_);
  if (release_) {
    try {
      release_();
    } catch (...) {  // the owner's function; there is nobody to tell
    }
  }
}

void Storage::change_stream(StreamState& stream, const Place& place) {
  const std::lock_guard lock(mutex_);
  StreamState* earlier = last_use_.load(std::memory_order_relaxed);
  if (earlier == &stream) return;
  // Before the wait, so that freeing knows of the stream whatever happens.
  if (std::find(used_by_.begin(), used_by_.end(), &stream) == used_by_.end()) used_by_.push_back(&stream);
  if (earlier != nullptr) stream.follow(*earlier, place);
  last_use_.store(&stream, std::memory_order_relaxed);
}

void Storage::wait_for_host(const Place& place) {
  if (!is_tracked_) return;
  const std::lock_guard lock(mutex_);
  for (StreamState* s : used_by_) s->synchronize(place);
}

}  // namespace tileweave::runtime
