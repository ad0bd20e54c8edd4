// What the cache has done in this process, as numbers that add up.
// Counted by cache.h and its stores; read by programs through tw::cache_counters().
#pragma once

#include <cstdint>

namespace tileweave::cache {

// At rest: lookups == memory + layer + disk + compiled + waited + failed.
struct Counters {
  std::uint64_t lookups = 0;
  std::uint64_t memory = 0;    // remembered by this process
  std::uint64_t layer = 0;     // read from a read-only layer
  std::uint64_t disk = 0;      // read from the root
  std::uint64_t compiled = 0;  // compiled by this call
  std::uint64_t waited = 0;    // compiled by another thread or process while this call waited
  std::uint64_t failed = 0;    // ended in an exception
  // What happened on the way.
  std::uint64_t damaged = 0, untrusted = 0, unreadable = 0, collisions = 0, rejected = 0;
  std::uint64_t stored = 0, not_stored = 0, evicted = 0, lock_timeouts = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
};

}  // namespace tileweave::cache
