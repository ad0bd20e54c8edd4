// A pack: many entries in one read-only file that ships with a program. Equal content gives equal bytes, anywhere.
// Opened as a layer; written by `tileweave cache pack` and `tileweave warmup`.
//
// header: magic[8] | format u32 | header size u32 | entry count u64 | profile count u64 | index offset u64 | index size
// u64 entries: entry files with creation time 0, sorted by address index: per profile {id[16] text, entry count u64,
// text size u32, text}; per entry {address 16, offset u64, size u64,
//        SHA-256}
// footer: SHA-256 over header and index: the pack's digest, which vouches for every byte
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/cache/file.h"
#include "tileweave/cache/report.h"
#include "tileweave/cache/sha256.h"
#include "tileweave/cache/store.h"
#include "tileweave/cache/trust.h"

namespace tileweave::cache {

// A pack's index, checked: sizes, order, bounds and digest.
struct PackIndex {
  struct Row {
    Hash128 address;
    std::uint64_t offset = 0, size = 0;
    Sha256 digest{};
  };
  std::vector<StoredProfile> profiles;
  std::vector<Row> rows;  // by address
  Sha256 digest{};
};

class PackStore final : public Store {
 public:
  // Null where the file is no pack, or neither pinned by `sha256` (64 digits, may be empty) nor private to root and the
  // user; `why` says which.
  static std::unique_ptr<PackStore> open(const std::string& path, const std::string& sha256, const TrustPolicy& policy,
                                         std::string& why);

  std::optional<Entry> get(const Key& key) override;
  bool put(const Key&, const Entry&) override { return false; }
  void remove(const Key&) override {}
  void visit(const std::function<bool(const EntryInfo&)>& callback) override;
  std::vector<StoredProfile> profiles() override { return index_.profiles; }
  std::vector<Profile> tool_chains() override;
  std::string description() const override { return path_; }

  const PackIndex& index() const { return index_; }
  // The bytes of one entry if they have the digest that the index states.
  std::optional<std::vector<std::byte>> read_checked(std::size_t row) const;
  std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }

 private:
  PackStore(std::string path, File file, PackIndex index, bool owner_trusted);

  const std::string path_;
  const File file_;
  const PackIndex index_;
  const bool owner_trusted_;  // nobody else can change the file after an entry's digest was checked
  mutable std::vector<std::atomic<bool>> checked_;
  mutable std::atomic<std::uint64_t> damaged_{0};
};

// Reads the index of any file, however hostile. Empty, with `why`, where it is none; `not_a_pack` where it does not
// even begin like one.
constexpr std::string_view not_a_pack = "is not a pack";
std::optional<PackIndex> read_pack_index(int file, std::string& why);

// Writes all entries of the stores (the first of equal keys counts), beside the target and then in its place; the old
// file stays if anything fails. Returns the digest; throws CacheError.
// `compressed`: payloads by zstd where that makes them smaller.
struct PackSummary {
  std::uint64_t entries = 0, bytes = 0;
  std::string digest;  // 64 digits: what a layer can be pinned to
};
PackSummary write_pack(std::span<Store* const> sources, const std::string& path, bool compressed = true);

}  // namespace tileweave::cache
