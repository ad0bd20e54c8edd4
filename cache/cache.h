// The cache's front: give it a key and a way to compile, get the entry; from memory, a layer, the disk or the compiler.
// Called by the front door at a kernel's first launch with new facts; afterwards the loaded kernel is found without it.
//
// It never changes results and never fails a program: a fault of the file system is a miss. What it throws is what
// `compile` threw, or, where TILEWEAVE_JIT=forbid, a CacheError for a kernel that is not cached.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tileweave/cache/counters.h"
#include "tileweave/cache/disk.h"
#include "tileweave/cache/entry.h"
#include "tileweave/cache/key.h"
#include "tileweave/cache/memory.h"
#include "tileweave/cache/report.h"
#include "tileweave/cache/settings.h"
#include "tileweave/cache/store.h"

namespace tileweave::cache {

enum class Source : std::uint8_t { memory, layer, disk, compiled, waited };
std::string_view to_string(Source source);

struct Result {
  Entry entry;
  Source source = Source::compiled;
  std::size_t key_index = 0;  // which of the candidate keys it belongs to
};

class Cache {
 public:
  using Compile = std::function<Entry()>;

  explicit Cache(CacheSettings settings);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // `compile` makes the entry for `key`; it is called by at most one thread of the process at a time, and by one
  // process of the machine as long as the lock can be had.
  Entry get_or_compile(const Key& key, const Compile& compile);
  // Artefacts of several profiles that would all do, best first; what is compiled belongs to the first.
  Result get_or_compile(std::span<const Key> candidates, const Compile& compile);

  // The first candidate that is there, or nothing: never compiles, never waits. Counted as a lookup where it finds.
  std::optional<Result> find(std::span<const Key> candidates);

  // The driver or linker refuses these bytes although they are intact: they are dropped everywhere, so that the next
  // call compiles. A second refusal is the caller's to report.
  void reject(const Key& key);

  // The profiles this process can use, once it knows them: a layer that has none of them is warned about, since a
  // deployment that ships it expects hits.
  void announce(std::span<const Profile> usable);

  // The tool chains and targets of the stores that this process only reads: of the layers, and of the root where
  // nothing may be written or compiled.
  std::vector<Profile> read_only_profiles() const;

  Counters counters() const;
  // Layers in the order of the search, then the root; for the commands.
  std::vector<Store*> stores() const;

 private:
  struct Found {
    Entry entry;
    Source source;
    std::size_t key_index;
  };
  std::optional<Found> find_in_layers(std::span<const Key> candidates);
  std::optional<Found> find_on_disk(std::span<const Key> candidates, Source source);
  Found produce(std::span<const Key> candidates, const Compile& compile);
  Found compile_once(std::span<const Key> candidates, const Compile& compile);
  Entry compile_checked(const Compile& compile);
  [[noreturn]] void throw_sealed_miss(std::span<const Key> candidates);
  void count(Source source);
  void log_result(const Key& key, Source source) const;

  const CacheSettings settings_;
  Reporter reporter_;
  MemoryMap memory_;
  std::vector<std::unique_ptr<Store>> layers_;
  std::unique_ptr<DiskStore> disk_;

  struct {
    std::atomic<std::uint64_t> lookups{0}, memory{0}, layer{0}, disk{0}, compiled{0}, waited{0}, failed{0}, rejected{0},
        lock_timeouts{0};
  } counts_;
};

}  // namespace tileweave::cache
