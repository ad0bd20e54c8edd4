// Other users of the machine: nothing they could have written is run, nothing of theirs is written to. Needs root,
// which alone can be two users; elsewhere these cases say so and end.
#include <doctest/doctest.h>

#include <filesystem>

#include "process.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

constexpr uid_t attacker = 41001, victim = 41002;

void give_all(const std::string& path, uid_t user) {
  for (const auto& f : fs::recursive_directory_iterator(path)) REQUIRE(::lchown(f.path().c_str(), user, user) == 0);
  REQUIRE(::lchown(path.c_str(), user, user) == 0);
}

struct Rig {
  TemporaryDirectory tmp;

  Rig() { fs::permissions(tmp.path(), static_cast<fs::perms>(0755)); }

  Command as(uid_t user, std::vector<std::string> options = {}) const {
    Command command = worker_in(tmp, std::move(options));
    command.user = user;
    return command;
  }
  // A cache that the attacker filled with well-formed entries whose code is wrong.
  void plant_wrong_entries() const {
    const std::string root = tmp / "cache";
    REQUIRE(run_worker(worker_in(tmp, {"--kernels=3", "--wrong=1"})).status == 0);
    give_all(root, attacker);
    for (const auto& f : fs::recursive_directory_iterator(root)) {
      fs::permissions(f.path(), static_cast<fs::perms>(f.is_directory() ? 0777 : 0666));
    }
    fs::permissions(root, static_cast<fs::perms>(0777));
  }
};

bool can_be_two_users() {
  if (is_root()) return true;
  MESSAGE("not root: cases with two users are not run");
  return false;
}

TEST_CASE("cache users: another user's directory with planted code is not used, and one warning says so") {
  if (!can_be_two_users()) return;
  Rig rig;
  rig.plant_wrong_entries();
  const auto before = files_below(rig.tmp.path());
  const Outcome o = run_worker(rig.as(victim, {"--kernels=3"}));
  CHECK(o.status == 0);
  CHECK(o.counter("compiled") == 3);
  CHECK(o.warnings() == 1);
  CHECK(o.err.find("belongs to uid 41001") != std::string::npos);
  CHECK(files_below(rig.tmp.path()) == before);
}

TEST_CASE("cache users: planted code below the victim's own root is not used at any depth") {
  if (!can_be_two_users()) return;
  for (const std::string own : {"cache", "cache/v1", "cache/v1/p"}) {
    CAPTURE(own);
    Rig rig;
    rig.plant_wrong_entries();
    // The victim owns the directories down to `own`; what is below is the attacker's.
    for (const std::string directory : {"cache", "cache/v1", "cache/v1/tmp", "cache/v1/p"}) {
      if (directory.size() > own.size() && directory != "cache/v1/tmp") break;
      REQUIRE(::chown((rig.tmp / directory).c_str(), victim, victim) == 0);
      fs::permissions(rig.tmp / directory, static_cast<fs::perms>(0700));
    }
    const Outcome o = run_worker(rig.as(victim, {"--kernels=3"}));
    CHECK(o.status == 0);
    CHECK(o.counter("compiled") == 3);
    CHECK(o.warnings() <= 1);
  }
}

TEST_CASE("cache users: links planted at every name the cache writes lead nowhere") {
  if (!can_be_two_users()) return;
  for (const std::string name : {"cache", "cache/v1", "cache/v1/tmp", "cache/v1/p", "cache/v1/locks"}) {
    CAPTURE(name);
    Rig rig;
    // The victim's files that the links point to, and the attacker's directories around the links.
    fs::create_directory(rig.tmp / "home");
    write_file(rig.tmp / "home/precious", "precious");
    REQUIRE(run_worker(rig.as(0)).status == 0);
    fs::remove_all(rig.tmp / name);
    const bool is_file = name.ends_with("locks");
    fs::create_symlink(rig.tmp / (is_file ? "home/precious" : "home"), rig.tmp / name);
    give_all(rig.tmp / "home", victim);
    const std::string root = rig.tmp / "cache";
    if (name != "cache") {
      give_all(root, victim);
      for (const auto& f : fs::recursive_directory_iterator(root)) {
        if (f.is_directory() && !f.is_symlink()) fs::permissions(f.path(), static_cast<fs::perms>(0700));
      }
    }
    REQUIRE(::lchown((rig.tmp / name).c_str(), attacker, attacker) == 0);
    const Outcome o = run_worker(rig.as(victim, {"--kernels=3"}));
    CHECK(o.status == 0);
    CHECK(o.warnings() <= 1);
    CHECK(file_text(rig.tmp / "home/precious") == "precious");
    CHECK(files_below(rig.tmp / "home").size() == 1);
  }
}

TEST_CASE("cache users: an attacker's entry file in the victim's shard is replaced, never read") {
  if (!can_be_two_users()) return;
  Rig rig;
  REQUIRE(run_worker(rig.as(0, {"--wrong=1"})).status == 0);
  give_all(rig.tmp / "cache", victim);
  const auto entries = entries_below(rig.tmp / "cache");
  REQUIRE(entries.size() == 1);
  REQUIRE(::chown(entries[0].c_str(), attacker, attacker) == 0);
  CHECK(run_worker(rig.as(victim)).counter("compiled") == 1);
  CHECK(run_worker(rig.as(victim)).counter("disk") == 1);
}

TEST_CASE("cache users: a layer of root's serves a plain user; one of another user's does not") {
  if (!can_be_two_users()) return;
  Rig rig;
  Command fill = rig.as(0, {"--kernels=3"});
  fill.environment["TILEWEAVE_CACHE_DIR"] = rig.tmp / "layer";
  REQUIRE(run_worker(fill).status == 0);
  for (const auto& f : fs::recursive_directory_iterator(rig.tmp / "layer")) {
    fs::permissions(f.path(), static_cast<fs::perms>(f.is_directory() ? 0755 : 0644));
  }
  fs::permissions(rig.tmp / "layer", static_cast<fs::perms>(0755));
  Command worker = rig.as(victim, {"--kernels=3"});
  worker.environment = {{"TILEWEAVE_CACHE_LAYERS", rig.tmp / "layer"},
                        {"TILEWEAVE_CACHE", "ro"},
                        {"TILEWEAVE_JIT", "forbid"},
                        {"HOME", "/nonexistent"}};
  CHECK(run_worker(worker).counter("layer") == 3);
  give_all(rig.tmp / "layer", attacker);
  const Outcome o = run_worker(worker);
  CHECK(o.status == 3);
  CHECK(o.err.find("belongs to uid 41001") != std::string::npos);
}

TEST_CASE("cache users: a home that cannot be written costs one warning at most") {
  if (!can_be_two_users()) return;
  Rig rig;
  Command worker;
  worker.options = {"--kernels=3"};
  worker.user = victim;
  worker.environment = {{"HOME", rig.tmp / "cannot"}};
  fs::create_directory(rig.tmp / "cannot");
  const Outcome o = run_worker(worker);
  CHECK(o.status == 0);
  CHECK(o.warnings() == 1);
  CHECK(o.counter("compiled") == 3);
}

}  // namespace
}  // namespace tileweave::cache
