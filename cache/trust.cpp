// Walks from / to the cache's root and judges every directory on the way.
// See trust.h for the rules.
#include "tileweave/cache/trust.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

namespace tileweave::cache {
namespace {

constexpr int most_links = 40;  // as the kernel's own limit

std::string octal(mode_t mode) {
  std::string out = "0";
  for (int shift = 9; shift >= 0; shift -= 3) {
    if (shift == 9 && (mode >> 9 & 7) == 0) continue;
    out += static_cast<char>('0' + (mode >> shift & 7));
  }
  return out;
}

// For directories above the root, which belong to the system or the user.
std::optional<std::string> distrust_ancestor(const struct stat& info, const std::string& path, uid_t user) {
  if (info.st_uid != 0 && info.st_uid != user) {
    return path + " belongs to uid " + std::to_string(info.st_uid) + ", not to root or uid " + std::to_string(user);
  }
  if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0) {
    return path + " is writable by everybody (mode " + octal(info.st_mode) + ")";
  }
  return std::nullopt;
}

// The components of a path, last first, so that the next one is at the back.
void push_components(std::vector<std::string>& stack, const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (slash > at) parts.push_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  stack.insert(stack.end(), parts.rbegin(), parts.rend());
}

std::optional<std::string> link_target(int link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t n = ::readlinkat(link, "", target.data(), target.size());
  if (n <= 0) return std::nullopt;
  target.resize(static_cast<std::size_t>(n));
  return target;
}

class Walk {
 public:
  enum class Target { directory, file };
  Walk(const std::string& path, const TrustPolicy& policy, bool create, Target target)
      : policy_(policy), create_(create), target_(target) {
    push_components(rest_, path);
  }

  OpenedDirectory run() {
    if (!start_at_root()) return refused(refusal_);
    while (!rest_.empty()) {
      if (!step()) return std::move(result_);
    }
    struct stat info = {};
    if (::fstat(here_.get(), &info) != 0) return refused(here_path_ + ": " + error_text(errno));
    if (const auto why = distrust(info, here_path_, policy_)) return refused(*why);
    File directory(::openat(here_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return refused(here_path_ + ": " + error_text(errno));
    return {std::move(directory), {}, false};
  }

 private:
  OpenedDirectory refused(std::string why) { return {File(), std::move(why), false}; }
  bool stop(std::string why, bool absent = false) {
    result_ = {File(), std::move(why), absent};
    return false;
  }

  bool start_at_root() {
    here_ = File(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    here_path_.clear();
    struct stat info = {};
    if (!here_ || ::fstat(here_.get(), &info) != 0) {
      refusal_ = "/: " + error_text(errno);
      return false;
    }
    if (const auto why = distrust_ancestor(info, "/", policy_.user)) refusal_ = *why;
    return refusal_.empty();
  }

  File open_or_create(const std::string& name) {
    File next = open_at(here_.get(), name.c_str(), O_PATH);
    if (next || errno != ENOENT || !create_) return next;
    if (::mkdirat(here_.get(), name.c_str(), 0700) != 0 && errno != EEXIST) return File();
    if (rest_.empty() && policy_.group) give_to_group(name);
    return open_at(here_.get(), name.c_str(), O_PATH);
  }

  void give_to_group(const std::string& name) {
    const File made = open_at(here_.get(), name.c_str(), O_RDONLY | O_DIRECTORY);
    if (made && ::fchown(made.get(), static_cast<uid_t>(-1), *policy_.group) == 0) {
      (void)::fchmod(made.get(), policy_.directory_mode());  // failing, the check that follows refuses it
    }
  }

  bool step() {
    const std::string name = std::move(rest_.back());
    rest_.pop_back();
    if (name == ".") return true;
    const std::string path = here_path_ + "/" + name;
    File next = open_or_create(name);
    if (!next) return stop(path + ": " + error_text(errno), errno == ENOENT);
    struct stat info = {};
    if (::fstat(next.get(), &info) != 0) return stop(path + ": " + error_text(errno));
    if (S_ISLNK(info.st_mode)) return follow(next, info, path);
    if (rest_.empty() && target_ == Target::file) return open_file(name, path);
    if (!S_ISDIR(info.st_mode)) return stop(path + " is not a directory");
    if (!rest_.empty()) {
      if (const auto why = distrust_ancestor(info, path, policy_.user)) return stop(*why);
    }
    here_ = std::move(next);
    here_path_ = path;
    return true;
  }

  // Ends the walk: the answer stands in result_.
  bool open_file(const std::string& name, const std::string& path) {
    File file = open_at(here_.get(), name.c_str(), O_RDONLY | O_NONBLOCK);
    struct stat info = {};
    if (!file || ::fstat(file.get(), &info) != 0) return stop(path + ": " + error_text(errno));
    if (!S_ISREG(info.st_mode)) return stop(path + " is not a regular file");
    if (const auto why = distrust(info, path, policy_)) return stop(*why);
    result_ = {std::move(file), {}, false};
    return false;
  }

  bool follow(const File& link, const struct stat& info, const std::string& path) {
    if (info.st_uid != 0 && info.st_uid != policy_.user) {
      return stop(path + " is a link that belongs to uid " + std::to_string(info.st_uid));
    }
    if (++links_ > most_links) return stop(path + ": too many links");
    const auto target = link_target(link.get());
    if (!target) return stop(path + ": cannot read the link");
    if (target->front() == '/' && !start_at_root()) return stop(refusal_);
    push_components(rest_, *target);
    return true;
  }

  const TrustPolicy& policy_;
  const bool create_;
  const Target target_;
  std::vector<std::string> rest_;
  File here_;
  std::string here_path_, refusal_;
  OpenedDirectory result_;
  int links_ = 0;
};

}  // namespace

TrustPolicy TrustPolicy::of_this_process() {
  TrustPolicy policy;
  policy.user = ::geteuid();
  return policy;
}

std::optional<std::string> distrust(const struct stat& info, const std::string& path, const TrustPolicy& policy) {
  const bool in_group = policy.group && info.st_gid == *policy.group;
  const bool owner_trusted = info.st_uid == policy.user || (policy.or_root && info.st_uid == 0) || in_group;
  if (!owner_trusted) {
    return path + " belongs to uid " + std::to_string(info.st_uid) + ", not to uid " + std::to_string(policy.user);
  }
  const mode_t loose = in_group ? S_IWOTH : S_IWGRP | S_IWOTH;
  if ((info.st_mode & loose) != 0) {
    return path + " is writable by other users (mode " + octal(info.st_mode) + ")";
  }
  return std::nullopt;
}

OpenedDirectory open_trusted(const std::string& path, const TrustPolicy& policy, bool create) {
  if (path.empty() || path.front() != '/') return {File(), "'" + path + "' is not an absolute path", false};
  return Walk(path, policy, create, Walk::Target::directory).run();
}

OpenedDirectory open_trusted_file(const std::string& path, const TrustPolicy& policy) {
  if (path.empty() || path.front() != '/') return {File(), "'" + path + "' is not an absolute path", false};
  OpenedDirectory opened = Walk(path, policy, false, Walk::Target::file).run();
  struct stat info = {};
  if (opened.directory && ::fstat(opened.directory.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return {File(), path + " is a directory", false};  // only "/" itself gets here
  }
  return opened;
}

OpenedDirectory open_trusted_child(int parent, const std::string& name, const std::string& path_of_parent,
                                   const TrustPolicy& policy, bool create) {
  const std::string path = path_of_parent + "/" + name;
  if (create) {
    const int error = make_directory(parent, name.c_str(), policy.directory_mode());
    if (error != 0 && error != EEXIST) return {File(), path + ": " + error_text(error), false};
  }
  File directory = open_at(parent, name.c_str(), O_RDONLY | O_DIRECTORY);
  if (!directory) return {File(), path + ": " + error_text(errno), errno == ENOENT};
  struct stat info = {};
  if (::fstat(directory.get(), &info) != 0) return {File(), path + ": " + error_text(errno), false};
  if (const auto why = distrust(info, path, policy)) return {File(), *why, false};
  return {std::move(directory), {}, false};
}

}  // namespace tileweave::cache
