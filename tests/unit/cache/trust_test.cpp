// Which directories are refused: loose ones, other users', and any on the way to them; as root and as a plain user.
#include "tileweave/cache/trust.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "temporary_directory.h"
#include "tileweave/cache/disk.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

TrustPolicy mine() { return TrustPolicy::of_this_process(); }
bool is_root() { return ::geteuid() == 0; }
constexpr uid_t other_user = 12345;

void give(const std::string& path, uid_t user, gid_t group) { REQUIRE(::lchown(path.c_str(), user, group) == 0); }

TEST_CASE("cache trust: a private directory is opened, missing ones are made private") {
  TemporaryDirectory tmp;
  const std::string path = tmp / "a/b/c";
  CHECK(open_trusted(path, mine(), false).absent);
  CHECK_FALSE(fs::exists(tmp / "a"));
  const ::mode_t before = ::umask(0);
  const OpenedDirectory made = open_trusted(path, mine(), true);
  ::umask(before);
  REQUIRE(made.directory);
  CHECK(fs::status(tmp / "a").permissions() == static_cast<fs::perms>(0700));
  CHECK(fs::status(path).permissions() == static_cast<fs::perms>(0700));
  CHECK(open_trusted(path, mine(), false).directory);
}

TEST_CASE("cache trust: loose modes are refused and not repaired") {
  TemporaryDirectory tmp;
  const std::string path = tmp / "c";
  fs::create_directory(path);
  for (const ::mode_t mode : {0777U, 0770U, 0720U, 0702U, 01777U}) {
    ::chmod(path.c_str(), mode);
    const OpenedDirectory opened = open_trusted(path, mine(), true);
    CHECK_FALSE(opened.directory);
    CHECK(opened.refusal.find("is writable by other users") != std::string::npos);
    CHECK(opened.refusal.starts_with(path));
    CHECK((static_cast<unsigned>(fs::status(path).permissions()) & 07777U) == mode);
  }
  ::chmod(path.c_str(), 0755);
  CHECK(open_trusted(path, mine(), true).directory);
}

TEST_CASE("cache trust: an ancestor that everybody may write is refused unless sticky") {
  TemporaryDirectory tmp;
  fs::create_directories(tmp / "a/c");
  ::chmod((tmp / "a").c_str(), 0777);
  CHECK_FALSE(open_trusted(tmp / "a/c", mine(), true).directory);
  ::chmod((tmp / "a").c_str(), 01777);
  CHECK(open_trusted(tmp / "a/c", mine(), true).directory);
}

TEST_CASE("cache trust: relative paths, files and dangling links are refused") {
  TemporaryDirectory tmp;
  CHECK_FALSE(open_trusted("cache", mine(), true).directory);
  CHECK_FALSE(open_trusted("", mine(), true).directory);
  write_file(tmp / "file", "x");
  CHECK(open_trusted(tmp / "file", mine(), true).refusal.find("not a directory") != std::string::npos);
  CHECK_FALSE(open_trusted(tmp / "file/c", mine(), true).directory);
  fs::create_symlink(tmp / "loop", tmp / "loop");
  CHECK(open_trusted(tmp / "loop", mine(), true).refusal.find("too many links") != std::string::npos);
}

TEST_CASE("cache trust: the user's own links are followed, relative and absolute, and what they lead to is judged") {
  TemporaryDirectory tmp;
  fs::create_directories(tmp / "data/c");
  fs::create_directory(tmp / "home");
  fs::create_directory_symlink("../data", tmp / "home/relative");
  fs::create_directory_symlink(tmp / "data", tmp / "home/absolute");
  CHECK(open_trusted(tmp / "home/relative/c", mine(), false).directory);
  CHECK(open_trusted(tmp / "home/absolute/c", mine(), false).directory);
  ::chmod((tmp / "data").c_str(), 0777);
  CHECK_FALSE(open_trusted(tmp / "home/relative/c", mine(), false).directory);
  CHECK_FALSE(open_trusted(tmp / "home/absolute/c", mine(), false).directory);
}

TEST_CASE("cache trust: other users' directories, ancestors and links are refused") {
  if (!is_root()) return;  // only root can give files away; the process tests run this as a plain user as well
  TemporaryDirectory tmp;
  fs::create_directories(tmp / "a/c");
  give(tmp / "a/c", other_user, other_user);
  CHECK(open_trusted(tmp / "a/c", mine(), true).refusal.find("belongs to uid 12345") != std::string::npos);
  give(tmp / "a/c", 0, 0);
  give(tmp / "a", other_user, other_user);
  CHECK_FALSE(open_trusted(tmp / "a/c", mine(), true).directory);
  give(tmp / "a", 0, 0);
  fs::create_directory_symlink(tmp / "a", tmp / "link");
  give(tmp / "link", other_user, other_user);
  CHECK(open_trusted(tmp / "link/c", mine(), true).refusal.find("is a link that belongs to") != std::string::npos);

  TrustPolicy plain = mine();
  plain.user = other_user;
  CHECK_FALSE(open_trusted(tmp / "a/c", plain, false).directory);  // root's
  plain.or_root = true;
  CHECK(open_trusted(tmp / "a/c", plain, false).directory);
}

TEST_CASE("cache trust: a group that the user opted in to may write") {
  if (!is_root()) return;
  constexpr gid_t group = 4321;
  TemporaryDirectory tmp;
  TrustPolicy policy = mine();
  policy.group = group;
  REQUIRE(open_trusted(tmp / "c", policy, true).directory);
  struct stat info = {};
  REQUIRE(::stat((tmp / "c").c_str(), &info) == 0);
  CHECK(info.st_gid == group);
  CHECK((info.st_mode & 07777) == 02770);
  CHECK_FALSE(open_trusted(tmp / "c", mine(), false).directory);  // without the opt-in it is loose
  give(tmp / "c", other_user, group);
  CHECK(open_trusted(tmp / "c", policy, false).directory);
  give(tmp / "c", other_user, group + 1);
  CHECK_FALSE(open_trusted(tmp / "c", policy, false).directory);
  give(tmp / "c", 0, group);
  ::chmod((tmp / "c").c_str(), 02777);
  CHECK_FALSE(open_trusted(tmp / "c", policy, false).directory);

  // Two members share what either stores.
  ::chmod((tmp / "c").c_str(), 02770);
  std::vector<std::string> warnings;
  Reporter reporter([&](const std::string& w) { warnings.push_back(w); });
  DiskOptions options;
  options.root = tmp / "c";
  options.trust = policy;
  const auto store = DiskStore::open(options, reporter);
  REQUIRE(store);
  CHECK(store->put(test_key(1), test_entry(1)));
  for (const auto& f : fs::recursive_directory_iterator(tmp / "c/v1")) {
    REQUIRE(::lstat(f.path().c_str(), &info) == 0);
    CHECK(info.st_gid == group);
    CHECK((info.st_mode & (S_ISDIR(info.st_mode) ? 0070 : 0040)) == (S_ISDIR(info.st_mode) ? 0070 : 0040));
  }
  CHECK(warnings.empty());
}

TEST_CASE("cache trust: a loose root gives one warning, no store, and nothing in it is read or written") {
  TemporaryDirectory tmp;
  std::vector<std::string> warnings;
  Reporter reporter([&](const std::string& w) { warnings.push_back(w); });
  DiskOptions options;
  options.root = tmp / "c";
  REQUIRE(DiskStore::open(options, reporter)->put(test_key(1), test_entry(1)));
  const auto before = files_below(tmp.path());
  for (const std::string& loose : {tmp / "c", tmp / "c/v1", tmp / "c/v1/p", tmp / "c/v1/tmp"}) {
    CAPTURE(loose);
    ::chmod(loose.c_str(), 0777);
    warnings.clear();
    Reporter fresh([&](const std::string& w) { warnings.push_back(w); });
    CHECK_FALSE(DiskStore::open(options, fresh));
    CHECK_FALSE(DiskStore::open(options, fresh));
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0] == "tileweave: warning: cache: " + loose +
                             " is writable by other users (mode 0777); the disk cache " + options.root +
                             " is not used in this process");
    ::chmod(loose.c_str(), 0700);
  }
  CHECK(files_below(tmp.path()) == before);
}

TEST_CASE("cache trust: a home that does not exist is not made") {
  TemporaryDirectory tmp;
  Reporter reporter([](const std::string&) {});
  DiskOptions options;
  options.must_exist = tmp / "home";
  options.root = tmp / "home/.cache/tileweave";
  CHECK_FALSE(DiskStore::open(options, reporter));
  CHECK_FALSE(fs::exists(tmp / "home"));
  fs::create_directory(tmp / "home");
  CHECK(DiskStore::open(options, reporter));
}

}  // namespace
}  // namespace tileweave::cache
