// Where things lie under a cache root, and one walk over all of it that follows no link and descends into nothing odd.
//   <root>/CACHEDIR.TAG   <root>/v1/locks   <root>/v1/tmp/<32 hex>   <root>/v1/p/<profile>/profile.txt
//   <root>/v1/p/<profile>/<2 hex>/<30 hex>.entry
// Shared by the disk store, the sweep and the commands.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tileweave/cache/entry.h"
#include "tileweave/cache/file.h"
#include "tileweave/cache/key.h"
#include "tileweave/cache/trust.h"

namespace tileweave::cache {

constexpr const char* version_directory = "v1";  // the format's number: other formats are simply not seen
constexpr const char* entries_directory = "p";
constexpr const char* temporary_directory = "tmp";

// Relative to the version directory.
std::string profile_path(const std::string& profile_id);
std::string shard_path(const Key& key);
std::string entry_path(const Key& key);

// The profile directories, in order.
std::vector<std::string> profile_ids(int version);

struct FoundFile {
  enum class Kind : std::uint8_t { entry, temporary, oddity };
  Kind kind;
  std::string path;  // relative to the version directory
  std::string profile_id;
  std::string address;  // of an entry: 32 hexadecimal digits
  struct stat info;
};

// Visits everything under the version directory until the callback returns false: entries and temporary files by their
// names and type, whatever else there is as oddities. The names that belong there are not reported.
void walk(int version, const std::function<bool(const FoundFile&)>& visit);

// The start of a small regular file, for people; empty if it cannot be read.
std::string read_small_text(int version, const std::string& path);

// Reading one entry file into memory, with every check that needs no key.
enum class ReadOutcome : std::uint8_t { intact, absent, unreadable, untrusted, damaged };
struct ReadFile {
  ReadOutcome outcome = ReadOutcome::absent;
  EntryFault fault = EntryFault::none;  // where damaged
  std::string why;                      // where untrusted or unreadable
  std::vector<std::byte> bytes;
  EntryView view;  // into bytes
  File file;
  struct stat info = {};
};
ReadFile read_entry_file(int version, const std::string& path, const TrustPolicy& policy);

}  // namespace tileweave::cache
