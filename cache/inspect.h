// What `tileweave cache` and `tileweave doctor` do, as functions: look at roots, packs and single files, and clean up.
// Above the stores. Every file read here is taken for hostile: nothing in one is run, followed or believed unchecked.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tileweave/cache/disk.h"
#include "tileweave/cache/pack.h"
#include "tileweave/cache/store.h"
#include "tileweave/cache/sweep.h"

namespace tileweave::cache {

struct Oddity {
  std::string path;
  std::string what;  // "a link", "an unknown file name", ...
};

// `cache stat` and the cache's part of `doctor`.
struct RootSummary {
  struct ProfileLine {
    StoredProfile profile;
    std::uint64_t bytes = 0;
  };
  std::vector<ProfileLine> profiles;
  std::uint64_t entries = 0, bytes = 0, temporaries = 0;
  std::uint64_t free_bytes = 0;  // of the file system
  std::string file_system;       // "ext4", "tmpfs", "nfs", or its number
  bool locks_work = false;       // a byte lock could be taken and released
  std::vector<Oddity> oddities;
};
RootSummary summarize(DiskStore& root);

// `cache ls`: intact entries, by kernel name and then address.
std::vector<EntryInfo> list_entries(std::span<Store* const> stores);

// `cache verify`: every entry's bytes, key and place.
struct VerifyResult {
  std::uint64_t intact = 0;
  std::vector<Oddity> bad;
};
VerifyResult verify_root(DiskStore& root);
VerifyResult verify_pack(const PackStore& pack);

// `cache inspect FILE`: an entry, a pack or a manifest, wherever it lies and whoever owns it. Fields in order; throws
// CacheError where the file cannot be read or is neither.
struct FileReport {
  std::string kind;  // "entry", "pack", "manifest"
  std::vector<std::pair<std::string, std::string>> fields;
};
FileReport inspect_file(const std::string& path);
std::vector<std::pair<std::string, std::string>> describe_key(const Key& key);

// `cache explain ADDRESS`: the entry with this address (32 digits, or the first few if they are unique).
std::optional<EntryInfo> find_by_address(std::span<Store* const> stores, std::string_view digits);
// ... and how it differs from the other cached variants of its kernel, the nearest first.
struct VariantDifference {
  EntryInfo variant;
  std::vector<Difference> differences;
};
std::vector<VariantDifference> explain_variants(std::span<Store* const> stores, const EntryInfo& entry);

// `cache gc`: down to the cap; where `keep` is given, also all entries of other profiles, with their directories.
SweepResult collect_garbage(DiskStore& root, std::uint64_t max_bytes, const std::optional<std::set<std::string>>& keep,
                            bool dry_run);
// `cache clear`: all entries and temporary files; whatever else is there stays.
SweepResult clear_root(DiskStore& root, bool dry_run);

// `cache unpack`: every entry of the pack into the root, durably.
struct UnpackResult {
  std::uint64_t stored = 0, refused = 0;
};
UnpackResult unpack(PackStore& pack, DiskStore& root);

// `cache diff`: what two stores do not have in common.
struct StoreDifference {
  std::vector<EntryInfo> only_left, only_right, other_payload;
  bool is_empty() const { return only_left.empty() && only_right.empty() && other_payload.empty(); }
};
StoreDifference diff_stores(Store& left, Store& right);

}  // namespace tileweave::cache
