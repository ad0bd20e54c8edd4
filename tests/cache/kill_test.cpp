// Processes killed at every single step of reading, locking and publishing: the next one is right, and nobody waits for
// the dead.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <span>

#include "process.h"
#include "tileweave/cache/entry.h"
#include "tileweave/jit/base/env.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

bool all_entries_are_whole(const TemporaryDirectory& tmp) {
  for (const std::string& path : entries_below(tmp / "cache")) {
    const std::string text = file_text(path);
    EntryView view;
    if (check_entry(std::as_bytes(std::span(text)), view) != EntryFault::none) return false;
  }
  return true;
}

// Walks the kill through every call that the worker makes on this cache, until one run survives.
void walk_kills(TemporaryDirectory& tmp, const std::vector<std::string>& options, int& killed) {
  for (int step = 1; step < 400; ++step) {
    Command victim = worker_in(tmp, options);
    victim.hostile = true;
    victim.environment["HOSTILE_KILL"] = std::to_string(step);
    const Outcome o = run_worker(victim);
    CAPTURE(step);
    REQUIRE(all_entries_are_whole(tmp));
    if (o.status == 0) return;
    REQUIRE(o.status == -SIGKILL);
    ++killed;
    fs::remove_all(tmp / "cache/v1/p");  // so that the next victim publishes, too
  }
  FAIL("no run survived");
}

TEST_CASE("cache kills: at every step of the first use of a root, whole entries and a right next run") {
  int killed = 0;
  for (int step = 1; step < 400; ++step) {
    TemporaryDirectory tmp;
    Command victim = worker_in(tmp, {"--payload=9000"});
    victim.hostile = true;
    victim.environment["HOSTILE_KILL"] = std::to_string(step);
    const Outcome o = run_worker(victim);
    CAPTURE(step);
    CHECK(all_entries_are_whole(tmp));
    const Outcome next = run_worker(worker_in(tmp, {"--payload=9000"}));
    CHECK(next.status == 0);
    CHECK(next.err.empty());
    CHECK(next.counter("disk") + next.counter("compiled") == 1);
    CHECK(entries_below(tmp / "cache").size() == 1);
    CHECK(files_below(tmp / "cache/v1/tmp").size() <= 2);  // the sweep removes them after an hour
    if (o.status == 0) {
      CHECK(killed > 15);  // the walk saw the opening, the lock, the write, the link and the clean-up
      return;
    }
    REQUIRE(o.status == -SIGKILL);
    ++killed;
  }
  FAIL("no run survived");
}

TEST_CASE("cache kills: at every step on a used root and of the sweep") {
  TemporaryDirectory tmp;
  REQUIRE(run_worker(worker_in(tmp, {"--first=50"})).status == 0);
  int killed = 0;
  walk_kills(tmp, {"--kernels=2"}, killed);
  CHECK(killed > 10);
  CHECK(run_worker(worker_in(tmp, {"--kernels=3"})).status == 0);
}

TEST_CASE("cache kills: whoever waits for a killed compiler compiles itself, and all others take that") {
  const int storms = env().long_tests ? 200 : 12;
  std::mt19937 random(11);
  for (int storm = 0; storm < storms; ++storm) {
    TemporaryDirectory tmp;
    const std::vector<std::string> options = {"--compile-ms=40", "--compile-log=" + tmp / "compiles"};
    Process holder(worker_in(tmp, options));
    while (lines_in(tmp / "compiles") == 0) ::usleep(500);
    std::vector<Process> waiters;
    for (int i = 0; i < 15; ++i) waiters.emplace_back(worker_in(tmp, options));
    ::usleep(random() % 40000);
    ::kill(holder.pid(), SIGKILL);
    holder.join();
    for (Process& w : waiters) {
      const Outcome o = w.join();
      CHECK(o.status == 0);
      CHECK(o.err.empty());
    }
    CHECK(lines_in(tmp / "compiles") <= 2);
    CHECK(all_entries_are_whole(tmp));
  }
}

TEST_CASE("cache kills: processes killed at random while all use one cache leave it right") {
  TemporaryDirectory tmp;
  const int rounds = env().long_tests ? 200 : 40;
  std::mt19937 random(13);
  std::vector<std::string> options = {"--kernels=300", "--payload=3000", "--compile-ms=1", "--no-memory"};
  for (int round = 0; round < rounds; ++round) {
    std::vector<Process> victims;
    for (int i = 0; i < 4; ++i) {
      options.push_back("--shuffle=" + std::to_string(random() % 1000));
      victims.emplace_back(worker_in(tmp, options));
      options.pop_back();
    }
    ::usleep(random() % 20000);
    for (Process& v : victims) ::kill(v.pid(), SIGKILL);
    for (Process& v : victims) (void)v.join();
    if (round % 8 == 7) fs::remove_all(tmp / "cache/v1/p");
  }
  CHECK(all_entries_are_whole(tmp));
  const Outcome o = run_worker(worker_in(tmp, {"--kernels=300", "--payload=3000"}));
  CHECK(o.status == 0);
  CHECK(o.counter("damaged") == 0);
}

}  // namespace
}  // namespace tileweave::cache
