// See collected.h.
#include "tileweave/cache/collected.h"

namespace tileweave::cache {
namespace {
std::vector<std::byte> blob_of(const Key& key) { return {key.blob().begin(), key.blob().end()}; }
}  // namespace

std::optional<Entry> CollectedStore::get(const Key& key) {
  const auto at = items_.find(blob_of(key));
  if (at == items_.end()) return std::nullopt;
  return at->second.entry;
}

bool CollectedStore::put(const Key& key, const Entry& entry) {
  items_.try_emplace(blob_of(key), Item{key, entry});
  return true;
}

void CollectedStore::remove(const Key& key) { items_.erase(blob_of(key)); }

void CollectedStore::visit(const std::function<bool(const EntryInfo&)>& callback) {
  for (const auto& [blob, item] : items_) {
    if (!callback({item.key, item.entry.meta, item.entry.payload.size(), 0, "memory"})) return;
  }
}

std::vector<StoredProfile> CollectedStore::profiles() {
  std::map<std::string, StoredProfile> found;
  for (const auto& [blob, item] : items_) {
    StoredProfile& p = found[item.key.profile_id()];
    p.id = item.key.profile_id();
    p.text = item.key.profile().text();
    ++p.entries;
  }
  std::vector<StoredProfile> out;
  for (auto& [id, p] : found) out.push_back(std::move(p));
  return out;
}

std::vector<Profile> CollectedStore::tool_chains() {
  std::vector<Profile> out;
  for (const StoredProfile& p : profiles()) {
    if (auto profile = Profile::parse(p.text)) out.push_back(std::move(*profile));
  }
  return out;
}

}  // namespace tileweave::cache
