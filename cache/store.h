// What every store of entries offers, and what reading one can come to.
// The front (cache.h) asks its stores in order; disk.h and pack.h implement this.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tileweave/cache/entry.h"
#include "tileweave/cache/key.h"

namespace tileweave::cache {

// Without the payload: enough to list, to find variants of a kernel and to explain a miss.
struct EntryInfo {
  Key key;
  std::string meta;
  std::uint64_t payload_bytes = 0;
  std::uint64_t created = 0;
  std::string place;  // where it is, for people
};

// The entries of one tool chain and target in a store.
struct StoredProfile {
  std::string id;
  std::uint64_t entries = 0;
  std::string text;  // as Profile::text()
};

class Store {
 public:
  virtual ~Store() = default;

  // The entry, whole and checked, or a miss. Never throws for anything the file system does.
  virtual std::optional<Entry> get(const Key& key) = 0;
  // True if the entry is stored now, by us or by somebody else.
  virtual bool put(const Key& key, const Entry& entry) = 0;
  virtual void remove(const Key& key) = 0;
  // Every intact entry until the callback returns false. Slow: for commands and error messages.
  virtual void visit(const std::function<bool(const EntryInfo&)>& callback) = 0;
  virtual std::vector<StoredProfile> profiles() = 0;
  // The same without counting: cheap enough to choose keys by.
  virtual std::vector<Profile> tool_chains() = 0;
  virtual std::string description() const = 0;
};

}  // namespace tileweave::cache
