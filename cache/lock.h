// Locks across processes: one byte of one file is the lock of one address. The kernel frees it when its holder dies, so
// nothing can go stale and there is nothing to clean up.
// Taken by the front while a missing kernel is compiled, and by the sweep.
#pragma once

#include <cstdint>

#include "tileweave/cache/file.h"
#include "tileweave/cache/hash.h"

namespace tileweave::cache {

// The byte that is the lock of an address, and the reserved bytes above all of those.
std::uint64_t lock_byte_of(const Hash128& address);
constexpr std::uint64_t sweep_byte = std::uint64_t{1} << 62;
constexpr std::uint64_t next_sweep_byte = sweep_byte + 1;
constexpr std::uint64_t probe_byte = sweep_byte + 2;  // to see whether locks work at all

// The locks file, opened once for each lock that is wanted: locks of one open file do not exclude each other, and
// closing the file is what releases.
class LockFile {
 public:
  enum class Outcome : std::uint8_t { held, busy, failed };

  // `directory` holds the file "locks", which is made with `mode` if it is missing. Never fails; a file that could not
  // be opened answers `failed`.
  LockFile(int directory, mode_t mode);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  Outcome try_lock(std::uint64_t byte);
  void unlock();

  // Installs the fork handlers; called when a store opens, so that no first use can coincide with a fork.
  static void prepare();

 private:
  friend class LockRegistry;
  int descriptor_ = -1;
};

}  // namespace tileweave::cache
