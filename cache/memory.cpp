// The table of flights and remembered entries, in shards so that threads with different kernels do not meet.
// See memory.h. No user code runs under a mutex here.
#include "tileweave/cache/memory.h"

#include <new>
#include <source_location>
#include <utility>

#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

// Rejections are rare; a program that causes more of them than this only loses the hint for the oldest.
constexpr std::size_t most_rejected = 1024;

std::size_t bytes_of(const Key& key, const HeldEntry& held) {
  return key.blob().size() + held.entry.payload.size() + held.entry.meta.size() + held.entry.kernel_name.size();
}

}  // namespace

std::shared_ptr<const HeldEntry> Flight::wait() const {
  state_.wait(running, std::memory_order_acquire);
  if (state_.load(std::memory_order_acquire) == crashed) std::rethrow_exception(error_);
  return entry_;
}

MemoryMap::MemoryMap(std::size_t most_entries, std::size_t most_bytes)
    : most_entries_((most_entries + shard_count - 1) / shard_count), most_bytes_(most_bytes / shard_count) {
  watch_forks(*this);
}

MemoryMap::~MemoryMap() { unwatch_forks(*this); }

MemoryMap::Seat MemoryMap::join(const Key& key) {
  Shard& shard = shard_of(key);
  const std::lock_guard lock(shard.mutex);
  const auto [at, is_new] = shard.slots.try_emplace(key);
  Slot& slot = at->second;
  if (slot.entry) {
    shard.uses.splice(shard.uses.begin(), shard.uses, slot.use);
    return {slot.entry, nullptr, false};
  }
  if (!is_new && slot.flight) {
    if (slot.flight->owner_ == std::this_thread::get_id()) {
      throw_internal_error(std::source_location::current(), "compiling a kernel asked the cache for the same kernel");
    }
    return {nullptr, slot.flight, false};
  }
  try {
    slot.flight = std::make_shared<Flight>();
  } catch (...) {
    shard.slots.erase(at);
    throw;
  }
  return {nullptr, slot.flight, true};
}

std::shared_ptr<const HeldEntry> MemoryMap::find(const Key& key) {
  Shard& shard = shard_of(key);
  const std::lock_guard lock(shard.mutex);
  const auto at = shard.slots.find(key);
  if (at == shard.slots.end() || !at->second.entry) return nullptr;
  shard.uses.splice(shard.uses.begin(), shard.uses, at->second.use);
  return at->second.entry;
}

void MemoryMap::land(const Key& key, const std::shared_ptr<Flight>& flight, std::shared_ptr<const HeldEntry> entry) {
  Shard& shard = shard_of(key);
  {
    const std::lock_guard lock(shard.mutex);
    flight->entry_ = entry;
    const auto at = shard.slots.find(key);
    // Another flight, or none, stands there if the process forked within the compile.
    if (at != shard.slots.end() && at->second.flight == flight) {
      shard.slots.erase(at);
      try {
        remember(shard, key, std::move(entry));
      } catch (const std::bad_alloc&) {
        // Not remembering costs a look at the disk; the waiters must be released in any case.
      }
    }
    flight->state_.store(Flight::landed, std::memory_order_release);
  }
  flight->state_.notify_all();
}

void MemoryMap::crash(const Key& key, const std::shared_ptr<Flight>& flight, std::exception_ptr error) {
  Shard& shard = shard_of(key);
  {
    const std::lock_guard lock(shard.mutex);
    flight->error_ = std::move(error);
    const auto at = shard.slots.find(key);
    if (at != shard.slots.end() && at->second.flight == flight) shard.slots.erase(at);
    flight->state_.store(Flight::crashed, std::memory_order_release);
  }
  flight->state_.notify_all();
}

void MemoryMap::remember(Shard& shard, const Key& key, std::shared_ptr<const HeldEntry> entry) {
  const std::size_t bytes = bytes_of(key, *entry);
  if (bytes > most_bytes_ || most_entries_ == 0) return;
  const auto at = shard.slots.try_emplace(key).first;
  shard.uses.push_front(&at->first);
  at->second = {nullptr, std::move(entry), bytes, shard.uses.begin()};
  shard.bytes += bytes;
  while (shard.uses.size() > most_entries_ || shard.bytes > most_bytes_) forget(shard, *shard.uses.back());
}

void MemoryMap::forget(Shard& shard, const Key& key) {
  const auto at = shard.slots.find(key);
  if (at == shard.slots.end() || !at->second.entry) return;
  shard.bytes -= at->second.bytes;
  shard.uses.erase(at->second.use);
  shard.slots.erase(at);
}

void MemoryMap::reject(const Key& key) {
  Shard& shard = shard_of(key);
  const std::lock_guard lock(shard.mutex);
  forget(shard, key);
  if (shard.rejected.size() >= most_rejected) shard.rejected.erase(shard.rejected.begin());
  shard.rejected.insert(key);
}

bool MemoryMap::is_rejected(const Key& key) const {
  const Shard& shard = shard_of(key);
  const std::lock_guard lock(shard.mutex);
  return shard.rejected.contains(key);
}

std::size_t MemoryMap::size() const {
  std::size_t count = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    count += shard.uses.size();
  }
  return count;
}

void MemoryMap::before_fork() {
  for (Shard& shard : shards_) shard.mutex.lock();
}

void MemoryMap::after_fork(bool is_child) {
  for (Shard& shard : shards_) {
    // The threads that would land these flights are not in the child. Their memory is left alone.
    if (is_child) std::erase_if(shard.slots, [](const auto& slot) { return slot.second.flight != nullptr; });
    shard.mutex.unlock();
  }
}

}  // namespace tileweave::cache
