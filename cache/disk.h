// The store on disk: one file an entry, published whole or not at all, shared by any number of processes.
// Opened once for each root or read-only directory layer. Every fault of the file system is a miss.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tileweave/cache/lock.h"
#include "tileweave/cache/report.h"
#include "tileweave/cache/store.h"
#include "tileweave/cache/trust.h"

namespace tileweave::cache {

struct DiskOptions {
  std::string root;        // absolute
  std::string must_exist;  // a directory above it that is not to be made, such as $HOME; empty: make all
  bool writable = true;
  TrustPolicy trust = TrustPolicy::of_this_process();
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  // 0: no cap
};

class DiskStore final : public Store {
 public:
  // Null where the root cannot be trusted or made; the reporter has been told why. A read-only root that is not there
  // is null without a word.
  static std::unique_ptr<DiskStore> open(const DiskOptions& options, Reporter& reporter);

  std::optional<Entry> get(const Key& key) override;
  bool put(const Key& key, const Entry& entry) override;
  void remove(const Key& key) override;
  void visit(const std::function<bool(const EntryInfo&)>& callback) override;
  std::vector<StoredProfile> profiles() override;
  std::vector<Profile> tool_chains() override;
  std::string description() const override { return options_.root; }
  const DiskOptions& options() const { return options_; }

  // True until a write was refused for good; then the store only reads.
  bool is_writable() const { return writable_.load(std::memory_order_relaxed); }
  // Lock files for compiling once across processes.
  std::unique_ptr<LockFile> lock_file() const;

  struct Counts {
    std::atomic<std::uint64_t> damaged{0}, untrusted{0}, unreadable{0}, other_key{0}, stored{0}, not_stored{0},
        bytes_read{0}, bytes_written{0}, evicted{0};
  };
  const Counts& counts() const { return counts_; }
  int version_directory_descriptor() const { return version_.get(); }

  // Makes entries durable before put returns (for building packs, not for running programs).
  void set_durable(bool durable) { durable_ = durable; }

 private:
  DiskStore(const DiskOptions& options, Reporter& reporter, File version);
  int make_directories(const Key& key);
  void write_profile_text(const Key& key);
  int write_temporary(const std::string& name, std::span<const std::byte> bytes);
  int publish(const std::string& temporary, const Key& key);
  int put_in_place(const std::string& temporary, const std::string& path);
  int replace_if_odd(const std::string& temporary, const std::string& path);
  void report_write_fault(int error);
  void unlink_if_unchanged(const std::string& path, const struct stat& before);
  void maybe_sweep(std::uint64_t bytes_written);

  const DiskOptions options_;
  Reporter& reporter_;
  const File version_;
  std::atomic<bool> writable_;
  bool durable_ = false;
  Counts counts_;
};

}  // namespace tileweave::cache
