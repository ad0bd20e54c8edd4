// Many processes at once on one cache: one compile each, right bytes for all, nothing left lying about.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "process.h"
#include "tileweave/jit/base/env.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

TEST_CASE("cache processes: 64 that start at once on an empty cache compile one kernel once") {
  const int rounds = env().long_tests ? 50 : 6;
  for (int round = 0; round < rounds; ++round) {
    TemporaryDirectory tmp;
    const Command worker = worker_in(tmp, {"--compile-ms=30", "--compile-log=" + tmp / "compiles"});
    const auto outcomes = run_together(std::vector<Command>(64, worker));
    REQUIRE(outcomes.size() == 64);
    for (const Outcome& o : outcomes) {
      CHECK(o.status == 0);
      CHECK(o.err.empty());
      CHECK(o.counter("sum") == 1);
      CHECK(o.counter("lookups") == 1);
    }
    CHECK(lines_in(tmp / "compiles") == 1);
    CHECK(temporaries_are_gone(tmp));
    CHECK(entries_below(tmp / "cache").size() == 1);
  }
}

TEST_CASE("cache processes: 16 with 40 kernels in as many orders compile each once") {
  TemporaryDirectory tmp;
  std::vector<Command> workers;
  for (int i = 0; i < 16; ++i) {
    workers.push_back(worker_in(tmp, {"--kernels=40", "--shuffle=" + std::to_string(i), "--compile-ms=2",
                                      "--compile-log=" + tmp / "compiles"}));
  }
  for (const Outcome& o : run_together(workers)) {
    CHECK(o.status == 0);
    CHECK(o.counter("sum") == 40);
  }
  CHECK(lines_in(tmp / "compiles") == 40);
  CHECK(entries_below(tmp / "cache").size() == 40);
}

TEST_CASE("cache processes: with addresses of 4 bits, collisions are misses and all bytes are right") {
  TemporaryDirectory tmp;
  std::vector<Command> workers;
  for (int i = 0; i < 8; ++i) {
    workers.push_back(worker_in(tmp, {"--kernels=200", "--shuffle=" + std::to_string(i), "--address-bits=4"}));
  }
  std::uint64_t collisions = 0;
  for (const Outcome& o : run_together(workers)) {
    CHECK(o.status == 0);
    CHECK(o.counter("sum") == 200);
    collisions += o.counter("collisions");
  }
  CHECK(collisions > 1000);
  CHECK(entries_below(tmp / "cache").size() <= 16);
}

TEST_CASE("cache processes: one key in every process, whatever the addresses and the locale") {
  const int count = env().long_tests ? 1000 : 50;
  std::set<std::string> keys;
  for (int i = 0; i < count; ++i) {
    Command worker;
    worker.options = {"--print-key"};
    worker.environment = {{"LC_ALL", i % 2 == 0 ? "C" : "de_DE.UTF-8"},
                          {"PADDING", std::string(static_cast<std::size_t>(i), 'x')}};
    const Outcome o = run_worker(worker);
    REQUIRE(o.status == 0);
    keys.insert(o.out);
  }
  CHECK(keys.size() == 1);
  CHECK(keys.begin()->size() == 33);
}

TEST_CASE("cache processes: two library versions share a root and never each other's code") {
  TemporaryDirectory tmp;
  const Command one = worker_in(tmp, {"--kernels=5", "--codegen=3f2a"});
  const Command two = worker_in(tmp, {"--kernels=5", "--codegen=9c01", "--wrong=1"});  // generates other bytes
  for (int run = 0; run < 3; ++run) {
    const Outcome a = run_worker(one), b = run_worker(two);
    CHECK(a.status == 0);
    CHECK(b.status == 0);
    CHECK(a.counter("disk") == (run == 0 ? 0 : 5));
    CHECK(b.counter("disk") == (run == 0 ? 0 : 5));
  }
  CHECK(entries_below(tmp / "cache").size() == 10);
}

TEST_CASE("cache processes: a failing compile fails in every process, and is remembered by none") {
  TemporaryDirectory tmp;
  const Command failing = worker_in(tmp, {"--compile-fails", "--compile-ms=5"});
  for (const Outcome& o : run_together(std::vector<Command>(8, failing))) {
    CHECK(o.status == 3);
    CHECK(o.err == "the assembler was killed\n");
  }
  CHECK(entries_below(tmp / "cache").empty());
  CHECK(run_worker(worker_in(tmp)).counter("compiled") == 1);
}

TEST_CASE("cache processes: eviction under a tiny cap, while an outsider deletes files, harms nobody") {
  TemporaryDirectory tmp;
  const int kernels = env().long_tests ? 1000 : 100;
  const std::uint64_t entry_bytes = 800, cap = 4 * entry_bytes;
  std::vector<Command> workers;
  for (int i = 0; i < 16; ++i) {
    Command worker =
        worker_in(tmp, {"--kernels=" + std::to_string(kernels), "--shuffle=" + std::to_string(i), "--no-memory"});
    worker.environment["TILEWEAVE_CACHE_MAX_SIZE"] = std::to_string(cap);
    workers.push_back(worker);
  }
  std::atomic<bool> stop{false};
  std::thread outsider([&] {
    for (unsigned i = 0; !stop; ++i) {
      const auto files = files_below(tmp / "cache");
      if (!files.empty()) ::unlink(files[i * 7 % files.size()].c_str());
      ::usleep(300);
    }
  });
  const auto outcomes = run_together(workers);
  stop = true;
  outsider.join();
  std::uint64_t evicted = 0;
  for (const Outcome& o : outcomes) {
    CHECK(o.status == 0);
    CHECK(o.err.empty());
    CHECK(o.counter("sum") == static_cast<std::uint64_t>(kernels));
    evicted += o.counter("evicted");
  }
  CHECK(evicted > 0);
  std::uint64_t bytes = 0;
  for (const std::string& f : entries_below(tmp / "cache")) bytes += fs::file_size(f);
  CHECK(bytes <= cap * 11 / 10);
}

TEST_CASE("cache processes: many that store one entry each keep to the cap as well") {
  TemporaryDirectory tmp;
  const int count = env().long_tests ? 10000 : 300;
  const std::uint64_t cap = 40000;
  for (int i = 0; i < count; ++i) {
    Command worker = worker_in(tmp, {"--first=" + std::to_string(i), "--payload=400"});
    worker.environment["TILEWEAVE_CACHE_MAX_SIZE"] = std::to_string(cap);
    REQUIRE(run_worker(worker).status == 0);
  }
  std::uint64_t bytes = 0;
  for (const std::string& f : entries_below(tmp / "cache")) bytes += fs::file_size(f);
  CHECK(bytes <= cap * 11 / 10);
  CHECK(bytes > cap / 2);
}

TEST_CASE("cache processes: forking while eight threads compile leaves parent and children right") {
  TemporaryDirectory tmp;
  const std::string forks = env().long_tests ? "--forks=300" : "--forks=40";
  const Outcome o = run_worker(worker_in(tmp, {forks, "--compile-ms=1"}));
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  CHECK(o.counter("lookups") == o.counter("sum"));
}

TEST_CASE("cache processes: memory stays flat over distinct kernels") {
  TemporaryDirectory tmp;
  Command worker = worker_in(tmp, {"--flat", env().long_tests ? "--kernels=100000" : "--kernels=20000"});
  worker.environment["TILEWEAVE_CACHE"] = "off";
  const Outcome o = run_worker(worker);
  CAPTURE(o.out);
  CHECK(o.status == 0);
}

}  // namespace
}  // namespace tileweave::cache
