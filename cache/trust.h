// Which directories and files the cache may load code from: only those that no other user could have written.
// Asked when a store opens its directory, and for every file it reads. A loose directory is refused, never repaired:
// what lies in it is already suspect.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "tileweave/cache/file.h"

namespace tileweave::cache {

struct TrustPolicy {
  uid_t user = 0;              // owner of everything: the effective user
  bool or_root = false;        // read-only stores may also belong to root
  std::optional<gid_t> group;  // members of this group may own and write, too

  static TrustPolicy of_this_process();

  mode_t directory_mode() const { return group ? 02770 : 0700; }
  mode_t file_mode() const { return group ? 0640 : 0600; }
  mode_t lock_mode() const { return group ? 0660 : 0600; }
};

// Why the object may not be trusted, in words that name `path`; nothing where it may.
std::optional<std::string> distrust(const struct stat& info, const std::string& path, const TrustPolicy& policy);

struct OpenedDirectory {
  File directory;       // open for reading, or empty (a file where a file was asked for)
  std::string refusal;  // why it is empty
  bool absent = false;  // it is empty because nothing is there
};

// Opens the absolute `path` from / down, component by component by descriptor, so that nothing can be exchanged between
// the check and the use. Ancestors belong to root or the user and are not writable by others unless sticky; links
// among them belong to root or the user, and what they lead to is checked the same way. The last directory satisfies
// `policy`. `create`: make missing directories, private to the user.
OpenedDirectory open_trusted(const std::string& path, const TrustPolicy& policy, bool create);

// The same for a regular file, all directories being ancestors.
OpenedDirectory open_trusted_file(const std::string& path, const TrustPolicy& policy);

// A directory below one that is already trusted; real, and satisfying the policy.
OpenedDirectory open_trusted_child(int parent, const std::string& name, const std::string& path_of_parent,
                                   const TrustPolicy& policy, bool create);

}  // namespace tileweave::cache
