// Paths under a cache root, the walk, and the one way an entry file is read.
// See layout.h.
#include "tileweave/cache/layout.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace tileweave::cache {
namespace {

constexpr std::string_view entry_suffix = ".entry";

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::vector<std::string> names_in(int parent, const std::string& path) {
  std::vector<std::string> names;
  File directory = open_beneath(parent, path.c_str(), O_RDONLY | O_DIRECTORY);
  if (!directory) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(directory.get()), ::closedir);
  if (!stream) return names;
  directory.release();  // the stream closes it
  while (const struct dirent* d = ::readdir(stream.get())) {
    const std::string_view name(d->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

class Walker {
 public:
  Walker(int version, const std::function<bool(const FoundFile&)>& visit) : version_(version), visit_(visit) {}

  void run() {
    for (const std::string& name : names_in(version_, ".")) {
      if (stopped_) return;
      if (name == "locks") continue;
      const auto mode = mode_of(name);
      if (name == temporary_directory && S_ISDIR(mode)) {
        walk_temporaries();
      } else if (name == entries_directory && S_ISDIR(mode)) {
        walk_profiles();
      } else {
        report(FoundFile::Kind::oddity, name, {}, {});
      }
    }
  }

 private:
  mode_t mode_of(const std::string& path) {
    struct stat info = {};
    return ::fstatat(version_, path.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_mode : 0;
  }

  void report(FoundFile::Kind kind, const std::string& path, const std::string& profile, const std::string& address) {
    FoundFile found{kind, path, profile, address, {}};
    if (::fstatat(version_, path.c_str(), &found.info, AT_SYMLINK_NOFOLLOW) != 0) return;  // gone meanwhile
    if (!S_ISREG(found.info.st_mode)) found.kind = FoundFile::Kind::oddity;
    if (!visit_(found)) stopped_ = true;
  }

  void walk_temporaries() {
    for (const std::string& name : names_in(version_, temporary_directory)) {
      if (stopped_) return;
      const auto kind = is_hex(name, 32) ? FoundFile::Kind::temporary : FoundFile::Kind::oddity;
      report(kind, std::string(temporary_directory) + "/" + name, {}, {});
    }
  }

  void walk_profiles() {
    for (const std::string& profile : names_in(version_, entries_directory)) {
      if (stopped_) return;
      const std::string path = profile_path(profile);
      if (!is_hex(profile, 16) || !S_ISDIR(mode_of(path))) {
        report(FoundFile::Kind::oddity, path, {}, {});
        continue;
      }
      walk_shards(profile, path);
    }
  }

  void walk_shards(const std::string& profile, const std::string& path) {
    for (const std::string& shard : names_in(version_, path)) {
      if (stopped_) return;
      if (shard == "profile.txt") continue;
      const std::string shard_path = path + "/" + shard;
      if (!is_hex(shard, 2) || !S_ISDIR(mode_of(shard_path))) {
        report(FoundFile::Kind::oddity, shard_path, {}, {});
        continue;
      }
      walk_entries(profile, shard, shard_path);
    }
  }

  void walk_entries(const std::string& profile, const std::string& shard, const std::string& path) {
    for (const std::string& name : names_in(version_, path)) {
      if (stopped_) return;
      const std::string_view stem = std::string_view(name).substr(0, std::min<std::size_t>(30, name.size()));
      const bool is_entry = is_hex(stem, 30) && std::string_view(name).substr(30) == entry_suffix;
      report(is_entry ? FoundFile::Kind::entry : FoundFile::Kind::oddity, path + "/" + name, profile,
             is_entry ? shard + std::string(stem) : std::string());
    }
  }

  const int version_;
  const std::function<bool(const FoundFile&)>& visit_;
  bool stopped_ = false;
};

}  // namespace

std::string profile_path(const std::string& profile_id) { return std::string(entries_directory) + "/" + profile_id; }

std::string shard_path(const Key& key) {
  return profile_path(key.profile_id()) + "/" + key.address().hex().substr(0, 2);
}

std::string entry_path(const Key& key) {
  return shard_path(key) + "/" + key.address().hex().substr(2) + std::string(entry_suffix);
}

std::vector<std::string> profile_ids(int version) {
  std::vector<std::string> ids = names_in(version, entries_directory);
  std::erase_if(ids, [](const std::string& name) { return !is_hex(name, 16); });
  std::ranges::sort(ids);
  return ids;
}

void walk(int version, const std::function<bool(const FoundFile&)>& visit) { Walker(version, visit).run(); }

std::string read_small_text(int version, const std::string& path) {
  constexpr off_t most_bytes = 4096;
  const File file = open_beneath(version, path.c_str(), O_RDONLY | O_NONBLOCK);
  struct stat info = {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string text(static_cast<std::size_t>(std::min(info.st_size, most_bytes)), '\0');
  return read_whole(file.get(), std::as_writable_bytes(std::span(text))) == 0 ? text : std::string();
}

ReadFile read_entry_file(int version, const std::string& path, const TrustPolicy& policy) {
  ReadFile out;
  // O_NONBLOCK: a FIFO in an entry's place must not hang us.
  out.file = open_beneath(version, path.c_str(), O_RDONLY | O_NONBLOCK);
  if (!out.file || ::fstat(out.file.get(), &out.info) != 0) {
    const bool absent = errno == ENOENT;
    out.outcome = absent ? ReadOutcome::absent : ReadOutcome::unreadable;
    if (!absent) out.why = path + ": " + error_text(errno);
    return out;
  }
  if (!S_ISREG(out.info.st_mode)) {
    out.outcome = ReadOutcome::untrusted;
    out.why = path + " is not a regular file";
    return out;
  }
  if (auto why = distrust(out.info, path, policy)) {
    out.outcome = ReadOutcome::untrusted;
    out.why = std::move(*why);
    return out;
  }
  out.outcome = ReadOutcome::damaged;
  const auto size = static_cast<std::uint64_t>(out.info.st_size);
  out.fault = size < entry_header_bytes ? EntryFault::too_short : EntryFault::bad_sizes;
  if (size < entry_header_bytes || size > max_entry_bytes) return out;
  out.bytes.resize(static_cast<std::size_t>(size));
  const int error = read_whole(out.file.get(), out.bytes);
  if (error == file_too_short) return out;  // cut since fstat
  if (error != 0) {
    out.outcome = ReadOutcome::unreadable;
    out.why = path + ": " + error_text(error);
    return out;
  }
  out.fault = check_entry(out.bytes, out.view);
  if (out.fault == EntryFault::none) out.outcome = ReadOutcome::intact;
  return out;
}

}  // namespace tileweave::cache
