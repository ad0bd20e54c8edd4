// A file system that is full, read-only, hostile, or changed under the reader's feet: a miss, never a failure.
#include <doctest/doctest.h>
#include <sys/mount.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "process.h"
#include "tileweave/jit/base/env.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

// A file system of its own, gone with the object. Needs root; `works` says whether it could be had.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, const std::string& options) : path_(path) {
    fs::create_directory(path);
    works_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, (options + ",mode=0700").c_str()) == 0;
  }
  ~SmallDisk() {
    if (works_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool works() const { return works_; }
  bool remount(unsigned long flags, const std::string& options) const {
    return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | flags, options.c_str()) == 0;
  }

 private:
  std::string path_;
  bool works_ = false;
};

TEST_CASE("cache faults: a full disk costs one warning; results are right, nothing partial stays, space heals it") {
  TemporaryDirectory tmp;
  const SmallDisk disk(tmp / "disk", "size=96k");
  if (!disk.works()) {
    MESSAGE("no right to mount: a full disk is only tested by the hostile calls");
    return;
  }
  Command worker = worker_in(tmp, {"--kernels=30", "--payload=10000"});
  worker.environment["TILEWEAVE_CACHE_DIR"] = tmp / "disk/cache";
  const Outcome o = run_worker(worker);
  CHECK(o.status == 0);
  CHECK(o.warnings() == 1);
  CHECK(o.err.find("No space left on device") != std::string::npos);
  CHECK(files_below(tmp / "disk/cache/v1/tmp").empty());
  const std::size_t stored = entries_below(tmp / "disk/cache").size();
  CHECK(stored > 0);
  CHECK(stored < 10);
  const Outcome again = run_worker(worker);
  CHECK(again.status == 0);
  CHECK(again.counter("disk") == stored);
  CHECK(again.counter("damaged") == 0);
  REQUIRE(disk.remount(0, "size=8m"));
  CHECK(run_worker(worker).err.empty());
  CHECK(entries_below(tmp / "disk/cache").size() == 30);
}

TEST_CASE("cache faults: a disk that is full before the first byte") {
  TemporaryDirectory tmp;
  const SmallDisk disk(tmp / "disk", "size=64k,nr_inodes=1");
  if (!disk.works()) return;
  Command worker = worker_in(tmp, {"--kernels=3"});
  worker.environment["TILEWEAVE_CACHE_DIR"] = tmp / "disk/cache";
  const Outcome o = run_worker(worker);
  CHECK(o.status == 0);
  CHECK(o.warnings() == 1);
}

TEST_CASE("cache faults: a moved cache on a read-only file system serves a sealed process") {
  TemporaryDirectory tmp;
  const SmallDisk disk(tmp / "disk", "size=8m");
  if (!disk.works()) return;
  Command fill = worker_in(tmp, {"--kernels=10"});
  fill.environment["TILEWEAVE_CACHE_DIR"] = tmp / "disk/a";
  REQUIRE(run_worker(fill).status == 0);
  fs::create_directory(tmp / "disk/moved");
  fs::rename(tmp / "disk/a", tmp / "disk/moved/c");
  REQUIRE(disk.remount(MS_RDONLY, "size=8m"));

  Command sealed = fill;
  sealed.environment = {
      {"TILEWEAVE_CACHE_DIR", tmp / "disk/moved/c"}, {"TILEWEAVE_CACHE", "ro"}, {"TILEWEAVE_JIT", "forbid"}};
  Outcome o = run_worker(sealed);
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  CHECK(o.counter("disk") == 10);

  sealed.options = {"--first=10", "--kernels=1"};  // one that was not warmed
  o = run_worker(sealed);
  CHECK(o.status == 3);
  CHECK(o.err.find("kernel 'kernel10' is not in the cache, and TILEWEAVE_JIT=forbid: no variant of it is cached") !=
        std::string::npos);

  Command writing = fill;  // rw where nothing can be written: hits, compiles, one warning
  writing.environment = {{"TILEWEAVE_CACHE_DIR", tmp / "disk/moved/c"}};
  writing.options = {"--kernels=14"};
  o = run_worker(writing);
  CHECK(o.status == 0);
  CHECK(o.warnings() == 1);
  CHECK(o.counter("disk") == 10);
  CHECK(o.counter("compiled") == 4);
}

TEST_CASE("cache faults: every call of a hostile file system may fail in every way, and the program is right") {
  const std::vector<std::string> calls = {"openat",   "openat2", "write", "pread",    "close",   "linkat",
                                          "unlinkat", "mkdirat", "lock",  "futimens", "renameat"};
  const std::vector<std::string> errors = {"EIO",    "EPERM",  "EACCES", "ENOSPC", "EROFS",
                                           "ENOSYS", "EMFILE", "ESTALE", "ENOLCK"};
  for (const std::string& call : calls) {
    for (const std::string& error : errors) {
      CAPTURE(call);
      CAPTURE(error);
      TemporaryDirectory tmp;
      REQUIRE(run_worker(worker_in(tmp, {"--kernels=2"})).status == 0);
      Command worker = worker_in(tmp, {"--kernels=4", "--no-memory", "--rounds=2"});
      worker.hostile = true;
      worker.environment["HOSTILE_FAIL"] = call + ":" + error;
      const Outcome o = run_worker(worker);
      CHECK(o.status == 0);
      CHECK(o.warnings() <= 1);
      CHECK(o.counter("sum") == 8);
      const Outcome after = run_worker(worker_in(tmp, {"--kernels=4"}));
      CHECK(after.status == 0);
      CHECK(after.err.empty());
      CHECK(after.counter("damaged") == 0);
    }
  }
}

TEST_CASE("cache faults: file systems without hard links, and without renameat2, still store") {
  for (const std::string fail : {"linkat:EPERM", "linkat:ENOTSUP", "linkat:EXDEV", "linkat:EMLINK",
                                 "linkat:EPERM,renameat2:ENOSYS", "linkat:ENOSYS,renameat2:EINVAL", "openat2:ENOSYS"}) {
    CAPTURE(fail);
    TemporaryDirectory tmp;
    Command worker = worker_in(tmp, {"--kernels=4"});
    worker.hostile = true;
    worker.environment["HOSTILE_FAIL"] = fail;
    const Outcome first = run_worker(worker), second = run_worker(worker);
    CHECK(first.status == 0);
    CHECK(first.err.empty());
    CHECK(second.counter("disk") == 4);
    CHECK(temporaries_are_gone(tmp));
  }
}

TEST_CASE("cache faults: a slow file system widens every race, and all stay right") {
  TemporaryDirectory tmp;
  std::vector<Command> workers;
  for (int i = 0; i < 6; ++i) {
    Command worker =
        worker_in(tmp, {"--kernels=6", "--shuffle=" + std::to_string(i), "--compile-log=" + tmp / "compiles"});
    worker.hostile = true;
    worker.environment["HOSTILE_DELAY"] = "linkat:3000,openat2:500,write:1000,unlinkat:1000,mkdirat:2000";
    workers.push_back(worker);
  }
  for (const Outcome& o : run_together(workers)) {
    CHECK(o.status == 0);
    CHECK(o.err.empty());
  }
  CHECK(lines_in(tmp / "compiles") == 6);
}

TEST_CASE("cache faults: entries truncated, grown and overwritten in place while others read them") {
  TemporaryDirectory tmp;
  const std::string rounds = env().long_tests ? "--rounds=10000" : "--rounds=400";
  REQUIRE(run_worker(worker_in(tmp, {"--kernels=10", "--payload=20000"})).status == 0);
  std::atomic<bool> stop{false};
  std::thread vandal([&] {
    std::mt19937 random(17);
    const std::string junk(30000, 'j');
    while (!stop) {
      const auto files = entries_below(tmp / "cache");
      if (files.empty()) continue;
      const std::string& path = files[random() % files.size()];
      const int fd = ::open(path.c_str(), O_WRONLY);
      if (random() % 3 == 0) (void)!::ftruncate(fd, random() % 25000);
      if (random() % 3 == 0) (void)!::pwrite(fd, junk.data(), random() % junk.size(), random() % 20000);
      ::close(fd);
      ::usleep(200);
    }
  });
  std::vector<Outcome> outcomes =
      run_together(std::vector<Command>(2, worker_in(tmp, {"--kernels=10", "--payload=20000", rounds, "--no-memory"})));
  stop = true;
  vandal.join();
  std::uint64_t damaged = 0;
  for (const Outcome& o : outcomes) {
    CHECK(o.status == 0);
    damaged += o.counter("damaged");
  }
  CHECK(damaged > 0);  // else nothing was met
}

TEST_CASE("cache faults: a read-only layer and no home: no compile and not one call that writes") {
  TemporaryDirectory tmp;
  Command fill = worker_in(tmp, {"--kernels=6"});
  fill.environment["TILEWEAVE_CACHE_DIR"] = tmp / "layer";
  REQUIRE(run_worker(fill).status == 0);
  for (const char* mode : {"ro", "rw"}) {
    Command worker = worker_in(tmp, {"--kernels=6"});
    worker.hostile = true;
    worker.environment = {{"TILEWEAVE_CACHE_LAYERS", tmp / "layer"},
                          {"TILEWEAVE_CACHE", mode},
                          {"TILEWEAVE_JIT", "forbid"},
                          {"HOME", tmp / "no/such/home"},
                          {"HOSTILE_COUNT", tmp / "count"}};
    const Outcome o = run_worker(worker);
    CHECK(o.status == 0);
    CHECK(o.counter("layer") == 6);
    const std::string counts = file_text(tmp / "count");
    CHECK(counts.substr(counts.find(' ')) == " 0\n");
    CHECK(counts.substr(0, counts.find(' ')) != "0");
    CHECK_FALSE(fs::exists(tmp / "no"));
    fs::remove(tmp / "count");
  }
}

TEST_CASE("cache faults: junk wherever a lock or a directory should be") {
  for (const std::string name : {"v1/locks", "v1/tmp", "v1/p"}) {
    for (const int kind : {0, 1, 2}) {
      CAPTURE(name);
      CAPTURE(kind);
      TemporaryDirectory tmp;
      fs::create_directories(tmp / "cache/v1");
      fs::permissions(tmp / "cache", fs::perms::owner_all);
      fs::permissions(tmp / "cache/v1", fs::perms::owner_all);
      const std::string path = tmp / "cache/" + name;
      if (kind == 0) write_file(path, "junk");
      if (kind == 1) fs::create_symlink(tmp / "elsewhere", path);
      if (kind == 2) ::mkfifo(path.c_str(), 0600);
      const Outcome o = run_worker(worker_in(tmp, {"--kernels=3"}));
      CHECK(o.status == 0);
      CHECK(o.warnings() <= 1);
      CHECK_FALSE(fs::exists(tmp / "elsewhere"));
    }
  }
}

}  // namespace
}  // namespace tileweave::cache
