// What this process has compiled or read already, and what it is compiling now: one compile for each key, and everybody
// else who wants it waits for that one.
// The first store the front asks. Bounded: the least recently used entries are forgotten, never one in flight.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "tileweave/cache/entry.h"
#include "tileweave/cache/fork.h"
#include "tileweave/cache/key.h"

namespace tileweave::cache {

// An entry in memory, and the number of the key it was found under among the caller's candidates.
struct HeldEntry {
  Entry entry;
  std::size_t key_index = 0;
};

// One compile under way; shared by its owner and its waiters.
class Flight {
 public:
  // Blocks until the owner is done; rethrows what the owner threw.
  std::shared_ptr<const HeldEntry> wait() const;

 private:
  friend class MemoryMap;
  enum State : int { running, landed, crashed };
  std::atomic<int> state_{running};
  std::shared_ptr<const HeldEntry> entry_;
  std::exception_ptr error_;
  std::thread::id owner_ = std::this_thread::get_id();
};

class MemoryMap final : ForkAware {
 public:
  MemoryMap(std::size_t most_entries, std::size_t most_bytes);
  ~MemoryMap();

  struct Seat {
    std::shared_ptr<const HeldEntry> entry;  // remembered; else
    std::shared_ptr<Flight> flight;          // somebody compiles it
    bool is_owner = false;                   // we do, and must call land() or crash()
  };
  Seat join(const Key& key);
  // The remembered entry, or null; joins nothing.
  std::shared_ptr<const HeldEntry> find(const Key& key);
  void land(const Key& key, const std::shared_ptr<Flight>& flight, std::shared_ptr<const HeldEntry> entry);
  // All waiters get the exception; nothing is remembered.
  void crash(const Key& key, const std::shared_ptr<Flight>& flight, std::exception_ptr error);

  // Forgets the entry and marks the key: what read-only stores hold for it was refused by a driver or linker.
  void reject(const Key& key);
  bool is_rejected(const Key& key) const;

  std::size_t size() const;  // remembered entries

 private:
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return static_cast<std::size_t>(key.address().low); }
  };
  struct Slot {
    std::shared_ptr<Flight> flight;          // running, or
    std::shared_ptr<const HeldEntry> entry;  // remembered
    std::size_t bytes = 0;
    std::list<const Key*>::iterator use;  // valid for a remembered entry
  };
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<Key, Slot, KeyHash> slots;
    std::list<const Key*> uses;  // remembered keys, the latest used first
    std::size_t bytes = 0;
    std::unordered_set<Key, KeyHash> rejected;
  };
  static constexpr std::size_t shard_count = 8;

  Shard& shard_of(const Key& key) { return shards_[key.address().high % shard_count]; }
  const Shard& shard_of(const Key& key) const { return shards_[key.address().high % shard_count]; }
  void remember(Shard& shard, const Key& key, std::shared_ptr<const HeldEntry> entry);
  static void forget(Shard& shard, const Key& key);
  void before_fork() override;
  void after_fork(bool is_child) override;

  const std::size_t most_entries_, most_bytes_;  // of one shard
  Shard shards_[shard_count];
};

}  // namespace tileweave::cache
