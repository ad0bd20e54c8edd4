// The sweep: list, sort by age, unlink until the rest fits. Files that vanish meanwhile are somebody else's sweep.
// See sweep.h.
#include "tileweave/cache/sweep.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tileweave/cache/layout.h"
#include "tileweave/cache/lock.h"

namespace tileweave::cache {
namespace {

struct Candidate {
  std::int64_t used;
  std::uint64_t bytes;
  std::string path;
};

bool unlink_file(int version, const std::string& path, bool dry_run) {
  return dry_run || ::unlinkat(version, path.c_str(), 0) == 0;
}

std::vector<Candidate> list(int version, const SweepRules& rules, SweepResult& result) {
  std::vector<Candidate> entries;
  walk(version, [&](const FoundFile& found) {
    const std::int64_t age = rules.now - found.info.st_mtim.tv_sec;
    if (found.kind == FoundFile::Kind::temporary && age > temporary_lifetime_s) {
      if (unlink_file(version, found.path, rules.dry_run)) ++result.removed_temporaries;
    }
    if (found.kind == FoundFile::Kind::entry && !rules.ignored_profiles.contains(found.profile_id)) {
      const auto bytes = static_cast<std::uint64_t>(found.info.st_size);
      entries.push_back({std::min<std::int64_t>(found.info.st_mtim.tv_sec, rules.now), bytes, found.path});
      ++result.entries;
      result.bytes += bytes;
    }
    return true;
  });
  return entries;
}

}  // namespace

SweepRules rules_for_cap(std::uint64_t max_bytes) {
  return {max_bytes, max_bytes / 5 * 4, static_cast<std::int64_t>(::time(nullptr)), false, {}};
}

SweepResult sweep(int version, const SweepRules& rules) {
  SweepResult result;
  std::vector<Candidate> entries = list(version, rules, result);
  if (rules.max_bytes == 0 || result.bytes <= rules.max_bytes) return result;
  std::ranges::sort(entries, {}, &Candidate::used);
  std::uint64_t left = result.bytes;
  for (const Candidate& entry : entries) {
    if (left <= rules.target_bytes) break;
    left -= entry.bytes;  // also when it is gone already
    if (!unlink_file(version, entry.path, rules.dry_run)) continue;
    ++result.removed_entries;
    result.removed_bytes += entry.bytes;
  }
  return result;
}

std::optional<SweepResult> sweep_alone(int version, const SweepRules& rules, mode_t lock_mode) {
  using Outcome = LockFile::Outcome;
  LockFile next(version, lock_mode), current(version, lock_mode);
  // At most one process waits for the one that sweeps; it will see everything stored before it begins, so all others
  // may leave.
  if (next.try_lock(next_sweep_byte) != Outcome::held) return std::nullopt;
  constexpr int most_polls = 500;
  for (int poll = 0; poll < most_polls; ++poll) {
    const Outcome outcome = current.try_lock(sweep_byte);
    if (outcome == Outcome::failed) return std::nullopt;
    if (outcome == Outcome::held) {
      next.unlock();
      return sweep(version, rules);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::nullopt;
}

}  // namespace tileweave::cache
