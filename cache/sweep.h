// Keeps a root under its cap: the least recently used entries go, and temporary files that nobody will finish.
// Run by the disk store on a path that has just paid for a compile, and by `tileweave cache gc`; never on a hit.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tileweave/cache/trust.h"

namespace tileweave::cache {

struct SweepRules {
  std::uint64_t max_bytes = 0;     // 0: no cap
  std::uint64_t target_bytes = 0;  // down to this once over the cap
  std::int64_t now = 0;            // seconds since 1970; entries from the future count as now
  bool dry_run = false;
  std::set<std::string> ignored_profiles = {};  // their entries are not counted and not touched
};

struct SweepResult {
  std::uint64_t entries = 0, bytes = 0;  // found
  std::uint64_t removed_entries = 0, removed_bytes = 0, removed_temporaries = 0;
};

// Temporary files older than this are what a killed process left.
constexpr std::int64_t temporary_lifetime_s = 3600;

SweepRules rules_for_cap(std::uint64_t max_bytes);
SweepResult sweep(int version, const SweepRules& rules);

// One sweep at a time in all processes. Returns nothing where another process's sweep, which begins later than this
// call, will do; so whoever has just stored an entry may rely on its being counted.
std::optional<SweepResult> sweep_alone(int version, const SweepRules& rules, mode_t lock_mode);

}  // namespace tileweave::cache
