// The commands that change a root: gc, clear, unpack. They remove only what they recognise by name and type.
// See inspect.h.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tileweave/cache/inspect.h"
#include "tileweave/cache/layout.h"

namespace tileweave::cache {
namespace {

void remove_profile_directory(int version, const std::string& id) {
  // Each step fails, and so leaves the directory, where something unknown or new is in it.
  for (int shard = 0; shard < 256; ++shard) {
    char name[4];
    std::snprintf(name, sizeof(name), "%02x", static_cast<unsigned>(shard));
    ::unlinkat(version, (profile_path(id) + "/" + name).c_str(), AT_REMOVEDIR);
  }
  const std::string text = profile_path(id) + "/profile.txt";
  if (::unlinkat(version, profile_path(id).c_str(), AT_REMOVEDIR) == 0) return;
  if (::unlinkat(version, text.c_str(), 0) == 0) ::unlinkat(version, profile_path(id).c_str(), AT_REMOVEDIR);
}

}  // namespace

SweepResult collect_garbage(DiskStore& root, std::uint64_t max_bytes, const std::optional<std::set<std::string>>& keep,
                            bool dry_run) {
  const int version = root.version_directory_descriptor();
  SweepResult dead;
  std::set<std::string> dead_profiles;
  walk(version, [&](const FoundFile& found) {
    if (found.kind != FoundFile::Kind::entry || !keep || keep->contains(found.profile_id)) return true;
    dead_profiles.insert(found.profile_id);
    const auto bytes = static_cast<std::uint64_t>(found.info.st_size);
    ++dead.entries;
    dead.bytes += bytes;
    if (!dry_run && ::unlinkat(version, found.path.c_str(), 0) != 0) return true;
    ++dead.removed_entries;
    dead.removed_bytes += bytes;
    return true;
  });
  if (!dry_run) {
    for (const std::string& id : dead_profiles) remove_profile_directory(version, id);
  }
  SweepRules rules = rules_for_cap(max_bytes);
  rules.dry_run = dry_run;
  rules.ignored_profiles = dead_profiles;
  SweepResult result = sweep(version, rules);
  result.entries += dead.entries;
  result.bytes += dead.bytes;
  result.removed_entries += dead.removed_entries;
  result.removed_bytes += dead.removed_bytes;
  return result;
}

SweepResult clear_root(DiskStore& root, bool dry_run) {
  const int version = root.version_directory_descriptor();
  SweepResult result;
  std::set<std::string> profiles;
  walk(version, [&](const FoundFile& found) {
    if (found.kind == FoundFile::Kind::oddity) return true;
    const auto bytes = static_cast<std::uint64_t>(found.info.st_size);
    const bool is_entry = found.kind == FoundFile::Kind::entry;
    if (is_entry) {
      ++result.entries;
      result.bytes += bytes;
      profiles.insert(found.profile_id);
    }
    if (!dry_run && ::unlinkat(version, found.path.c_str(), 0) != 0) return true;
    if (is_entry) {
      ++result.removed_entries;
      result.removed_bytes += bytes;
    } else {
      ++result.removed_temporaries;
    }
    return true;
  });
  if (!dry_run) {
    for (const std::string& id : profiles) remove_profile_directory(version, id);
  }
  return result;
}

UnpackResult unpack(PackStore& pack, DiskStore& root) {
  UnpackResult result;
  root.set_durable(true);
  pack.visit([&](const EntryInfo& info) {
    const auto entry = pack.get(info.key);
    const bool stored = entry && root.put(info.key, *entry);
    ++(stored ? result.stored : result.refused);
    return true;
  });
  root.set_durable(false);
  return result;
}

}  // namespace tileweave::cache
