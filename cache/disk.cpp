// Reading, publishing and removing entry files by the protocol: read all into private memory, check, compare the key;
// write beside, link into place, first one wins.
// See disk.h.
#include "tileweave/cache/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <utility>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/layout.h"
#include "tileweave/cache/sweep.h"

namespace tileweave::cache {
namespace {

constexpr std::int64_t refresh_after_s = 24 * 3600;
// A sweep is due on average each time so much of the cap was written: the overshoot then stays far below a tenth.
constexpr std::uint64_t sweeps_per_cap = 128;

bool is_out_of_space(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }
bool is_read_only(int error) { return error == EROFS || error == EACCES || error == EPERM; }

void write_cache_tag(int root) {
  // Tells back-up programs to leave this directory out (bford.info/cachedir).
  File tag = open_at(root, "CACHEDIR.TAG", O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (!tag) return;
  constexpr std::string_view text =
      "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled kernels of tileweave; safe to delete.\n";
  (void)write_whole(tag.get(), bytes_of(text));  // a convenience; the cache does not need it
}

OpenedDirectory open_version(const DiskOptions& options) {
  struct stat info = {};
  if (!options.must_exist.empty() && ::stat(options.must_exist.c_str(), &info) != 0) {
    return {File(), options.must_exist + ": " + error_text(errno), errno == ENOENT};
  }
  OpenedDirectory root = open_trusted(options.root, options.trust, options.writable);
  if (!root.directory) return root;
  OpenedDirectory version =
      open_trusted_child(root.directory.get(), version_directory, options.root, options.trust, false);
  if (version.absent && options.writable) {
    version = open_trusted_child(root.directory.get(), version_directory, options.root, options.trust, true);
    if (version.directory) write_cache_tag(root.directory.get());
  }
  return version;
}

}  // namespace

std::unique_ptr<DiskStore> DiskStore::open(const DiskOptions& options, Reporter& reporter) {
  OpenedDirectory version = open_version(options);
  const std::string path = options.root + "/" + version_directory;
  for (const char* name : {entries_directory, temporary_directory}) {
    if (!version.directory) break;
    OpenedDirectory child = open_trusted_child(version.directory.get(), name, path, options.trust, false);
    // Missing ones are made when something is stored.
    if (!child.directory && !child.absent) version = std::move(child);
  }
  if (!version.directory) {
    if (version.absent && !options.writable) return nullptr;
    reporter.warn_once(Warning::untrusted,
                       version.refusal + "; the disk cache " + options.root + " is not used in this process");
    return nullptr;
  }
  if (options.writable) LockFile::prepare();
  return std::unique_ptr<DiskStore>(new DiskStore(options, reporter, std::move(version.directory)));
}

DiskStore::DiskStore(const DiskOptions& options, Reporter& reporter, File version)
    : options_(options), reporter_(reporter), version_(std::move(version)), writable_(options.writable) {}

std::unique_ptr<LockFile> DiskStore::lock_file() const {
  return std::make_unique<LockFile>(version_.get(), options_.trust.lock_mode());
}

std::optional<Entry> DiskStore::get(const Key& key) {
  const std::string path = entry_path(key);
  const ReadFile read = read_entry_file(version_.get(), path, options_.trust);
  switch (read.outcome) {
    case ReadOutcome::absent:
      return std::nullopt;
    case ReadOutcome::unreadable:
      ++counts_.unreadable;
      reporter_.log(read.why);
      return std::nullopt;
    case ReadOutcome::untrusted:
      ++counts_.untrusted;
      reporter_.log(read.why);
      return std::nullopt;
    case ReadOutcome::damaged:
      ++counts_.damaged;
      reporter_.log(path + " is " + std::string(to_string(read.fault)));
      if (is_writable()) unlink_if_unchanged(path, read.info);
      return std::nullopt;
    case ReadOutcome::intact:
      break;
  }
  if (text_of(read.view.key_blob) != text_of(key.blob())) {
    ++counts_.other_key;  // the addresses collide, or somebody moved the file
    return std::nullopt;
  }
  counts_.bytes_read += read.bytes.size();
  if (is_writable() && ::time(nullptr) - read.info.st_mtim.tv_sec > refresh_after_s) {
    (void)::futimens(read.file.get(), nullptr);  // the sweep sees it was used; not being able to say so is harmless
  }
  auto entry = read.view.entry();
  if (!entry) {
    ++counts_.damaged;
    if (is_writable()) unlink_if_unchanged(path, read.info);
  }
  return entry;
}

void DiskStore::unlink_if_unchanged(const std::string& path, const struct stat& before) {
  struct stat now = {};
  if (::fstatat(version_.get(), path.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 && is_unchanged(before, now)) {
    ::unlinkat(version_.get(), path.c_str(), 0);
  }
}

void DiskStore::remove(const Key& key) {
  if (is_writable()) ::unlinkat(version_.get(), entry_path(key).c_str(), 0);
}

bool DiskStore::put(const Key& key, const Entry& entry) {
  if (!is_writable()) return false;
  const std::vector<std::byte> bytes = encode_entry(key, entry, static_cast<std::uint64_t>(::time(nullptr)));
  if (bytes.size() > max_entry_bytes || (options_.max_bytes != 0 && bytes.size() > options_.max_bytes / 4)) {
    reporter_.log("an entry of " + std::to_string(bytes.size()) + " bytes is too large to be kept");
    ++counts_.not_stored;
    return false;
  }
  const std::string temporary = std::string(temporary_directory) + "/" + random_name(16);
  int error = write_temporary(temporary, bytes);
  if (error == 0) error = publish(temporary, key);
  ::unlinkat(version_.get(), temporary.c_str(), 0);
  if (error != 0) {
    ++counts_.not_stored;
    report_write_fault(error);
    return false;
  }
  ++counts_.stored;
  counts_.bytes_written += bytes.size();
  maybe_sweep(bytes.size());
  return true;
}

int DiskStore::write_temporary(const std::string& name, std::span<const std::byte> bytes) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL;
  File file = open_beneath(version_.get(), name.c_str(), flags, options_.trust.file_mode());
  if (!file && errno == ENOENT) {
    (void)make_directory(version_.get(), temporary_directory, options_.trust.directory_mode());
    file = open_beneath(version_.get(), name.c_str(), flags, options_.trust.file_mode());
  }
  if (!file) return errno;
  const int error = write_whole(file.get(), bytes);
  if (error != 0) return error;
  if (durable_ && ::fsync(file.get()) != 0) return errno;
  return file.close();
}

int DiskStore::make_directories(const Key& key) {
  const mode_t mode = options_.trust.directory_mode();
  (void)make_directory(version_.get(), entries_directory, mode);
  if (make_directory(version_.get(), profile_path(key.profile_id()).c_str(), mode) == 0) write_profile_text(key);
  const int error = make_directory(version_.get(), shard_path(key).c_str(), mode);
  return error == EEXIST ? 0 : error;
}

void DiskStore::write_profile_text(const Key& key) {
  const std::string temporary = std::string(temporary_directory) + "/" + random_name(16);
  const std::string path = profile_path(key.profile_id()) + "/profile.txt";
  // A read-only process chooses its keys by it; without it these entries are not seen, which costs a miss.
  if (write_temporary(temporary, bytes_of(key.profile().text())) == 0) {
    (void)::linkat(version_.get(), temporary.c_str(), version_.get(), path.c_str(), 0);
  }
  ::unlinkat(version_.get(), temporary.c_str(), 0);
}

int DiskStore::publish(const std::string& temporary, const Key& key) {
  const std::string path = entry_path(key);
  int error = put_in_place(temporary, path);
  // A directory may be missing, or be removed again by `tileweave cache gc` between the two steps.
  for (int attempt = 0; error == ENOENT && attempt < 3; ++attempt) {
    error = make_directories(key);
    if (error == 0) error = put_in_place(temporary, path);
  }
  return error;
}

int DiskStore::put_in_place(const std::string& temporary, const std::string& path) {
  const int dir = version_.get();
  if (::linkat(dir, temporary.c_str(), dir, path.c_str(), 0) == 0) return 0;
  if (errno == EEXIST) return replace_if_odd(temporary, path);
  if (errno != EPERM && errno != ENOTSUP && errno != EXDEV && errno != EMLINK && errno != ENOSYS) return errno;
  // A file system without hard links.
  if (::syscall(SYS_renameat2, dir, temporary.c_str(), dir, path.c_str(), 1U /* RENAME_NOREPLACE */) == 0) return 0;
  if (errno == EEXIST) return replace_if_odd(temporary, path);
  if (errno != ENOSYS && errno != EINVAL) return errno;
  return ::renameat(dir, temporary.c_str(), dir, path.c_str()) == 0 ? 0 : errno;
}

// The name is taken. By an entry: somebody was first, which is as good. By anything that can never be read as one (a
// link, a socket, another user's file): put the entry in its place.
int DiskStore::replace_if_odd(const std::string& temporary, const std::string& path) {
  struct stat info = {};
  const int dir = version_.get();
  if (::fstatat(dir, path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
  if (S_ISREG(info.st_mode) && !distrust(info, path, options_.trust)) return 0;
  return ::renameat(dir, temporary.c_str(), dir, path.c_str()) == 0 ? 0 : errno;
}

void DiskStore::report_write_fault(int error) {
  const std::string reason = "cannot store in " + options_.root + ": " + error_text(error);
  if (is_out_of_space(error)) {
    reporter_.warn_once(Warning::disk_full, reason + "; kernels are compiled but not kept");
  } else if (is_read_only(error)) {
    writable_.store(false, std::memory_order_relaxed);
    reporter_.warn_once(Warning::read_only, reason + "; the cache is only read from here on");
  } else if (error == ENOENT) {
    reporter_.log(reason);  // somebody deletes the cache while we use it, which is their right
  } else {
    reporter_.warn_once(Warning::not_stored, reason);
  }
}

void DiskStore::maybe_sweep(std::uint64_t bytes_written) {
  const std::uint64_t cap = options_.max_bytes;
  if (cap == 0) return;
  // A coin weighted by the bytes written: no count has to be kept anywhere, and processes that store one entry each
  // still cause sweeps.
  const std::uint64_t stride = std::max<std::uint64_t>(cap / sweeps_per_cap, 1);
  const std::uint64_t draw = std::stoull(random_name(7), nullptr, 16) % stride;
  if (draw >= bytes_written) return;
  const auto result = sweep_alone(version_.get(), rules_for_cap(cap), options_.trust.lock_mode());
  if (!result) return;
  counts_.evicted += result->removed_entries;
  if (result->removed_entries != 0) {
    reporter_.log("swept " + std::to_string(result->removed_entries) + " of " + std::to_string(result->entries) +
                  " entries, " + std::to_string(result->removed_bytes) + " bytes");
  }
}

std::vector<StoredProfile> DiskStore::profiles() {
  std::map<std::string, std::uint64_t> counts;
  walk(version_.get(), [&](const FoundFile& found) {
    if (found.kind == FoundFile::Kind::entry) ++counts[found.profile_id];
    return true;
  });
  std::vector<StoredProfile> out;
  for (const auto& [id, count] : counts) {
    out.push_back({id, count, read_small_text(version_.get(), profile_path(id) + "/profile.txt")});
  }
  return out;
}

std::vector<Profile> DiskStore::tool_chains() {
  std::vector<Profile> out;
  for (const std::string& id : profile_ids(version_.get())) {
    // The text is believed only where it hashes to the directory's name.
    auto profile = Profile::parse(read_small_text(version_.get(), profile_path(id) + "/profile.txt"));
    if (profile && profile->id() == id) out.push_back(std::move(*profile));
  }
  return out;
}

void DiskStore::visit(const std::function<bool(const EntryInfo&)>& callback) {
  walk(version_.get(), [&](const FoundFile& found) {
    if (found.kind != FoundFile::Kind::entry) return true;
    const ReadFile read = read_entry_file(version_.get(), found.path, options_.trust);
    if (read.outcome != ReadOutcome::intact) return true;
    auto key = Key::parse(read.view.key_blob, std::string(read.view.kernel_name));
    if (!key) return true;
    return callback({std::move(*key), std::string(read.view.meta), read.view.payload_bytes(), read.view.created,
                     options_.root + "/" + version_directory + "/" + found.path});
  });
}

}  // namespace tileweave::cache
