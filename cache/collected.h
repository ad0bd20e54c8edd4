// Entries in memory, for a pack to be written from: what `tileweave warmup` collects from its children.
// A store like any other (store.h), but nothing of it outlives the process.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tileweave/cache/store.h"

namespace tileweave::cache {

class CollectedStore final : public Store {
 public:
  std::optional<Entry> get(const Key& key) override;
  // The first entry of a key stays.
  bool put(const Key& key, const Entry& entry) override;
  void remove(const Key& key) override;
  void visit(const std::function<bool(const EntryInfo&)>& callback) override;
  std::vector<StoredProfile> profiles() override;
  std::vector<Profile> tool_chains() override;
  std::string description() const override { return "memory"; }

 private:
  struct Item {
    Key key;
    Entry entry;
  };
  std::map<std::vector<std::byte>, Item> items_;  // by key blob
};

}  // namespace tileweave::cache
