// The byte locks: exclusive between open files, free when closed or dead, and not kept alive by a forked child.
#include "tileweave/cache/lock.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>

#include "temporary_directory.h"

namespace tileweave::cache {
namespace {

using Outcome = LockFile::Outcome;

struct Rig {
  TemporaryDirectory tmp;
  File directory{::open(tmp.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  LockFile another() { return LockFile(directory.get(), 0600); }
};

TEST_CASE("cache lock: one byte is held by one, other bytes are free, closing releases") {
  Rig rig;
  LockFile b = rig.another();
  {
    LockFile a = rig.another();
    CHECK(a.try_lock(7) == Outcome::held);
    CHECK(a.try_lock(7) == Outcome::held);  // one's own
    CHECK(b.try_lock(7) == Outcome::busy);
    CHECK(b.try_lock(8) == Outcome::held);
    CHECK(b.try_lock(sweep_byte) == Outcome::held);
    rig.another().try_lock(9);  // closing another file of the process must not drop a's lock
    CHECK(b.try_lock(7) == Outcome::busy);
  }
  CHECK(b.try_lock(7) == Outcome::held);
}

TEST_CASE("cache lock: addresses map below the reserved bytes") {
  CHECK(lock_byte_of({~0ULL, ~0ULL}) < sweep_byte);
  CHECK(lock_byte_of({0, 5}) == 5);
  Rig rig;
  LockFile a = rig.another();
  CHECK(a.try_lock(lock_byte_of({~0ULL, ~0ULL})) == Outcome::held);
}

TEST_CASE("cache lock: junk in the lock file's place is a failed lock, untouched") {
  for (const int kind : {0, 1, 2, 3}) {
    Rig rig;
    const std::string path = rig.tmp / "locks";
    if (kind == 0) std::filesystem::create_directory(path);
    if (kind == 1) std::filesystem::create_symlink(rig.tmp / "victim", path);
    if (kind == 2) ::mkfifo(path.c_str(), 0600);
    if (kind == 3) std::filesystem::create_symlink("/etc/passwd", path);
    CHECK(rig.another().try_lock(1) == Outcome::failed);
    CHECK_FALSE(std::filesystem::exists(rig.tmp / "victim"));
  }
}

TEST_CASE("cache lock: a lock dies with its process") {
  Rig rig;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    LockFile a = rig.another();
    const char answer = a.try_lock(7) == Outcome::held ? 'y' : 'n';
    (void)!::write(ready[1], &answer, 1);
    ::pause();
  }
  char answer = 0;
  REQUIRE(::read(ready[0], &answer, 1) == 1);
  CHECK(answer == 'y');
  LockFile b = rig.another();
  CHECK(b.try_lock(7) == Outcome::busy);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(b.try_lock(7) == Outcome::held);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("cache lock: a forked child does not keep its parent's lock") {
  Rig rig;
  auto a = std::make_unique<LockFile>(rig.directory.get(), 0600);
  REQUIRE(a->try_lock(7) == Outcome::held);
  int running[2];
  REQUIRE(::pipe(running) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)!::write(running[1], "r", 1);
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  REQUIRE(::read(running[0], &answer, 1) == 1);  // its fork handler has run
  a.reset();                                     // the parent lets go while the child lives
  CHECK(rig.another().try_lock(7) == Outcome::held);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(running[0]);
  ::close(running[1]);
}

TEST_CASE("cache lock: in a forked child the lock object is inert, and new ones work") {
  Rig rig;
  LockFile a = rig.another();
  REQUIRE(a.try_lock(7) == Outcome::held);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = a.try_lock(8) == Outcome::failed;
    LockFile b = rig.another();
    right = right && b.try_lock(7) == Outcome::busy && b.try_lock(8) == Outcome::held;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tileweave::cache
