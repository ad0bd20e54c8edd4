// Looking at roots, packs and files: summaries, lists, verification, explanation.
// See inspect.h; upkeep.cpp has the functions that change something.
#include "tileweave/cache/inspect.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <tuple>

#include "tileweave/cache/layout.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

std::string what_it_is(const FoundFile& found) {
  const mode_t mode = found.info.st_mode;
  if (S_ISLNK(mode)) return "a link; the cache follows none";
  if (S_ISDIR(mode)) return "a directory that does not belong here";
  if (S_ISFIFO(mode) || S_ISSOCK(mode)) return "a pipe or socket";
  if (S_ISREG(mode)) return "a file of an unknown name";
  return "a device";
}

// The magic numbers of statfs(2) for file systems on which caches lie.
std::string file_system_name(int directory) {
  struct statfs info = {};
  if (::fstatfs(directory, &info) != 0) return "unknown";
  constexpr std::pair<std::uint32_t, const char*> names[] = {
      {0xef53, "ext4"},        {0x01021994, "tmpfs"}, {0x58465342, "xfs"},  {0x9123683e, "btrfs"}, {0x6969, "nfs"},
      {0x794c7630, "overlay"}, {0x65735546, "fuse"},  {0xff534d42, "cifs"}, {0x2fc12fc1, "zfs"},   {0x4d44, "fat"}};
  const auto type = static_cast<std::uint32_t>(info.f_type);
  for (const auto& [number, name] : names) {
    if (number == type) return name;
  }
  return "number " + std::to_string(type);
}

// Why an intact entry does not belong where it lies; nothing if it does.
std::optional<std::string> misplaced(const FoundFile& found, const EntryView& view) {
  const auto key = Key::parse(view.key_blob, std::string(view.kernel_name));
  if (!key) return std::string(to_string(EntryFault::bad_key));
  if (key->profile_id() != found.profile_id)
    return "an entry of profile " + key->profile_id() + " in another's directory";
  if (key->address().hex() != found.address)
    return "an entry under another's name: its address is " + key->address().hex();
  return std::nullopt;
}

void add_entry_fields(FileReport& report, const EntryView& view) {
  report.fields.emplace_back("kernel", std::string(view.kernel_name));
  report.fields.emplace_back("created", std::to_string(view.created));
  report.fields.emplace_back("payload bytes", std::to_string(view.payload_bytes()));
  if (view.raw_bytes != 0) report.fields.emplace_back("compressed to", std::to_string(view.payload.size()));
  report.fields.emplace_back("meta", std::string(view.meta));
  const auto key = Key::parse(view.key_blob, std::string(view.kernel_name));
  if (!key) {
    report.fields.emplace_back("key", "malformed");
    return;
  }
  report.fields.emplace_back("address", key->address().hex());
  report.fields.emplace_back("profile", key->profile_id());
  for (auto& field : describe_key(*key)) report.fields.push_back({"key: " + field.first, std::move(field.second)});
}

bool is_manifest(int file) {
  std::vector<std::byte> head(manifest_header().size());
  return read_whole(file, head) == 0 && head == manifest_header();
}

FileReport manifest_report(const Manifest& manifest) {
  FileReport report{"manifest", {}};
  report.fields.emplace_back("records", std::to_string(manifest.records.size()));
  if (manifest.cut_bytes != 0)
    report.fields.emplace_back("bytes that are no record", std::to_string(manifest.cut_bytes));
  std::map<std::string, std::size_t> kernels;
  for (const Record& r : manifest.records) ++kernels[r.kernel_name];
  for (const auto& [name, count] : kernels) {
    report.fields.emplace_back("kernel " + name, std::to_string(count) + (count == 1 ? " variant" : " variants"));
  }
  return report;
}

FileReport pack_report(const PackIndex& index) {
  FileReport report{"pack", {}};
  report.fields.emplace_back("digest", hex_of(index.digest));
  report.fields.emplace_back("entries", std::to_string(index.rows.size()));
  for (const StoredProfile& p : index.profiles) {
    report.fields.emplace_back("profile " + p.id, std::to_string(p.entries) + " entries, codegen " +
                                                      profile_field(p.text, "codegen") + ", target " +
                                                      profile_field(p.text, "target"));
  }
  return report;
}

}  // namespace

RootSummary summarize(DiskStore& root) {
  RootSummary summary;
  const int version = root.version_directory_descriptor();
  std::map<std::string, RootSummary::ProfileLine> lines;
  walk(version, [&](const FoundFile& found) {
    switch (found.kind) {
      case FoundFile::Kind::entry: {
        RootSummary::ProfileLine& line = lines[found.profile_id];
        ++line.profile.entries;
        line.bytes += static_cast<std::uint64_t>(found.info.st_size);
        break;
      }
      case FoundFile::Kind::temporary:
        ++summary.temporaries;
        break;
      case FoundFile::Kind::oddity:
        summary.oddities.push_back({found.path, what_it_is(found)});
        break;
    }
    return true;
  });
  for (auto& [id, line] : lines) {
    line.profile.id = id;
    line.profile.text = read_small_text(version, profile_path(id) + "/profile.txt");
    summary.entries += line.profile.entries;
    summary.bytes += line.bytes;
    summary.profiles.push_back(std::move(line));
  }
  struct statvfs space = {};
  if (::fstatvfs(version, &space) == 0) summary.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  summary.file_system = file_system_name(version);
  summary.locks_work = root.is_writable() && root.lock_file()->try_lock(probe_byte) != LockFile::Outcome::failed;
  return summary;
}

std::vector<EntryInfo> list_entries(std::span<Store* const> stores) {
  std::vector<EntryInfo> all;
  for (Store* store : stores) {
    store->visit([&](const EntryInfo& info) {
      all.push_back(info);
      return true;
    });
  }
  std::ranges::sort(all, {},
                    [](const EntryInfo& e) { return std::tuple(e.key.kernel_name(), e.key.address(), e.place); });
  return all;
}

VerifyResult verify_root(DiskStore& root) {
  VerifyResult result;
  const int version = root.version_directory_descriptor();
  walk(version, [&](const FoundFile& found) {
    if (found.kind == FoundFile::Kind::oddity) result.bad.push_back({found.path, what_it_is(found)});
    if (found.kind != FoundFile::Kind::entry) return true;
    const ReadFile read = read_entry_file(version, found.path, root.options().trust);
    if (read.outcome == ReadOutcome::absent) return true;
    if (read.outcome == ReadOutcome::damaged) {
      result.bad.push_back({found.path, std::string(to_string(read.fault))});
    } else if (read.outcome != ReadOutcome::intact) {
      result.bad.push_back({found.path, read.why});
    } else if (auto why = misplaced(found, read.view)) {
      result.bad.push_back({found.path, std::move(*why)});
    } else if (!read.view.entry()) {
      result.bad.push_back({found.path, "intact but its payload does not unpack"});
    } else {
      ++result.intact;
    }
    return true;
  });
  return result;
}

VerifyResult verify_pack(const PackStore& pack) {
  VerifyResult result;
  for (std::size_t row = 0; row < pack.index().rows.size(); ++row) {
    const std::string name = pack.description() + ":" + pack.index().rows[row].address.hex();
    const auto bytes = pack.read_checked(row);
    EntryView view;
    if (!bytes) {
      result.bad.push_back({name, "damaged: its SHA-256 differs"});
    } else if (const EntryFault fault = check_entry(*bytes, view); fault != EntryFault::none) {
      result.bad.push_back({name, std::string(to_string(fault))});
    } else if (!view.entry()) {
      result.bad.push_back({name, "intact but its payload does not unpack"});
    } else if (const auto key = Key::parse(view.key_blob, {});
               !key || key->address() != pack.index().rows[row].address) {
      result.bad.push_back({name, "an entry under another's address"});
    } else {
      ++result.intact;
    }
  }
  return result;
}

FileReport inspect_file(const std::string& path) {
  const std::string help = "give an .entry file below a cache root, a .pack file or a .rec file";
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!file || ::fstat(file.get(), &info) != 0)
    throw_cache_error("cannot read " + path + ": " + error_text(errno), help);
  if (!S_ISREG(info.st_mode)) throw_cache_error(path + " is not a regular file", help);
  std::string why;
  if (const auto index = read_pack_index(file.get(), why)) return pack_report(*index);
  if (why != not_a_pack) throw_cache_error(path + " " + why, help);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (is_manifest(file.get())) return manifest_report(read_manifest(path));
  if (size > max_entry_bytes) throw_cache_error(path + " is too large for an entry", help);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (const int error = read_whole(file.get(), bytes)) {
    throw_cache_error("cannot read " + path + ": " + (error == file_too_short ? "it shrinks" : error_text(error)),
                      help);
  }
  EntryView view;
  const EntryFault fault = check_entry(bytes, view);
  if (fault != EntryFault::none) throw_cache_error(path + " is " + std::string(to_string(fault)), help);
  FileReport report{"entry", {}};
  add_entry_fields(report, view);
  return report;
}

std::vector<std::pair<std::string, std::string>> describe_key(const Key& key) {
  std::vector<std::pair<std::string, std::string>> out;
  KeyReader reader(key.blob());
  while (const auto field = reader.next()) out.emplace_back(field->name, field->to_text());
  return out;
}

std::optional<EntryInfo> find_by_address(std::span<Store* const> stores, std::string_view digits) {
  std::optional<EntryInfo> found;
  bool unique = true;
  for (Store* store : stores) {
    store->visit([&](const EntryInfo& info) {
      if (!info.key.address().hex().starts_with(digits)) return true;
      if (found && !(found->key == info.key)) unique = false;
      if (!found) found = info;
      return unique;
    });
  }
  return unique ? found : std::nullopt;
}

std::vector<VariantDifference> explain_variants(std::span<Store* const> stores, const EntryInfo& entry) {
  std::vector<VariantDifference> out;
  for (Store* store : stores) {
    store->visit([&](const EntryInfo& info) {
      const bool is_variant = info.key.kernel_name() == entry.key.kernel_name() && !(info.key == entry.key);
      if (is_variant) out.push_back({info, differences(entry.key, info.key)});
      return true;
    });
  }
  std::ranges::sort(out, {},
                    [](const VariantDifference& v) { return std::pair(v.differences.size(), v.variant.place); });
  return out;
}

StoreDifference diff_stores(Store& left, Store& right) {
  StoreDifference result;
  left.visit([&](const EntryInfo& info) {
    const auto ours = left.get(info.key), theirs = right.get(info.key);
    if (!theirs) {
      result.only_left.push_back(info);
    } else if (ours && !(*ours == *theirs)) {
      result.other_payload.push_back(info);
    }
    return true;
  });
  right.visit([&](const EntryInfo& info) {
    if (!left.get(info.key)) result.only_right.push_back(info);
    return true;
  });
  return result;
}

}  // namespace tileweave::cache
