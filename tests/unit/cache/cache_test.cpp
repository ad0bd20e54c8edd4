// The front: the order of a lookup, the modes, the counters, one compile for many threads, the sealed process's error.
#include "tileweave/cache/cache.h"

#include <doctest/doctest.h>

#include <barrier>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "temporary_directory.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

struct Rig {
  TemporaryDirectory tmp;
  std::vector<std::string> lines;
  CacheSettings settings;
  int compiles = 0;

  Rig() {
    settings.root = tmp / "cache";
    settings.sink = [this](const std::string& line) { lines.push_back(line); };
  }
  Cache::Compile compile(std::uint64_t n, const std::string& kernel = "kernel") {
    return [this, n, kernel] {
      ++compiles;
      return test_entry(n, 100, kernel);
    };
  }
  Cache::Compile no_compile() {
    return []() -> Entry { throw std::runtime_error("must not compile"); };
  }
};

void check_sum(const Cache& cache) {
  const Counters c = cache.counters();
  CHECK(c.lookups == c.memory + c.layer + c.disk + c.compiled + c.waited + c.failed);
}

TEST_CASE("cache front: compiled, then remembered, then from disk in the next process") {
  Rig rig;
  {
    Cache cache(rig.settings);
    CHECK(cache.get_or_compile(test_key(1), rig.compile(1)) == test_entry(1));
    CHECK(cache.get_or_compile(test_key(1), rig.no_compile()) == test_entry(1));
    const Counters c = cache.counters();
    CHECK(c.lookups == 2);
    CHECK(c.compiled == 1);
    CHECK(c.memory == 1);
    CHECK(c.stored == 1);
  }
  Cache next(rig.settings);
  CHECK(next.get_or_compile(test_key(1), rig.no_compile()) == test_entry(1));
  CHECK(next.counters().disk == 1);
  check_sum(next);
  CHECK(rig.compiles == 1);
  CHECK(rig.lines.empty());
}

TEST_CASE("cache front: an exception passes through, nothing is stored or remembered, the next call compiles") {
  Rig rig;
  Cache cache(rig.settings);
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH_AS(cache.get_or_compile(test_key(1), []() -> Entry { throw std::runtime_error("no ptxas"); }),
                         "no ptxas", std::runtime_error);
  }
  CHECK(entries_below(rig.settings.root).empty());
  CHECK(cache.get_or_compile(test_key(1), rig.compile(1)) == test_entry(1));
  CHECK(cache.counters().failed == 3);
  check_sum(cache);
}

TEST_CASE("cache front: a compile that yields no bytes is an error and is never stored") {
  Rig rig;
  Cache cache(rig.settings);
  CHECK_THROWS_AS(cache.get_or_compile(test_key(1), [] { return Entry{"k", "", {}}; }), InternalError);
  CHECK(files_below(rig.settings.root + "/v1/p").empty());
  check_sum(cache);
}

TEST_CASE("cache front: off keeps everything in memory and touches no file") {
  Rig rig;
  rig.settings.mode = CacheMode::off;
  Cache cache(rig.settings);
  cache.get_or_compile(test_key(1), rig.compile(1));
  cache.get_or_compile(test_key(1), rig.no_compile());
  CHECK_FALSE(fs::exists(rig.settings.root));
}

TEST_CASE("cache front: read-only reads, and writes nothing, not even directories") {
  Rig rig;
  {
    Cache(rig.settings).get_or_compile(test_key(1), rig.compile(1));
  }
  const auto before = files_below(rig.settings.root);
  rig.settings.mode = CacheMode::ro;
  {
    Cache cache(rig.settings);
    cache.get_or_compile(test_key(1), rig.no_compile());
    cache.get_or_compile(test_key(2), rig.compile(2));
    CHECK(cache.counters().disk == 1);
    CHECK(cache.counters().compiled == 1);
  }
  CHECK(files_below(rig.settings.root) == before);
  rig.settings.root = rig.tmp / "absent";
  Cache cache(rig.settings);
  cache.get_or_compile(test_key(1), rig.compile(1));
  CHECK_FALSE(fs::exists(rig.settings.root));
  CHECK(rig.lines.empty());
}

TEST_CASE("cache front: without a root it works from memory") {
  Rig rig;
  rig.settings.root.clear();
  Cache cache(rig.settings);
  cache.get_or_compile(test_key(1), rig.compile(1));
  cache.get_or_compile(test_key(1), rig.no_compile());
  CHECK(rig.lines.empty());
}

TEST_CASE("cache front: a root that cannot be used costs one warning and nothing else") {
  Rig rig;
  write_file(rig.tmp / "file", "x");
  for (const std::string& root :
       {rig.tmp / "file", rig.tmp / "file/below", std::string("relative"), std::string("/proc/x")}) {
    CAPTURE(root);
    rig.lines.clear();
    rig.settings.root = root;
    Cache cache(rig.settings);
    for (std::uint64_t i = 0; i < 3; ++i) cache.get_or_compile(test_key(i), rig.compile(i));
    cache.get_or_compile(test_key(1), rig.no_compile());
    CHECK(rig.lines.size() == 1);
    CHECK(cache.counters().compiled == 3);
  }
}

TEST_CASE("cache front: directory layers are searched before the root, in order, and are not written") {
  Rig rig;
  CacheSettings fill = rig.settings;
  fill.root = rig.tmp / "first";
  {
    Cache(fill).get_or_compile(test_key(1), rig.compile(11));
  }
  fill.root = rig.tmp / "second";
  {
    Cache cache(fill);
    cache.get_or_compile(test_key(1), rig.compile(21));
    cache.get_or_compile(test_key(2), rig.compile(22));
  }
  rig.settings.layers = {{rig.tmp / "first", ""}, {rig.tmp / "second", ""}};
  Cache cache(rig.settings);
  CHECK(cache.get_or_compile(test_key(1), rig.no_compile()) == test_entry(11));
  CHECK(cache.get_or_compile(test_key(2), rig.no_compile()) == test_entry(22));
  CHECK(cache.get_or_compile(test_key(3), rig.compile(3)) == test_entry(3));
  CHECK(cache.counters().layer == 2);
  CHECK(entries_below(rig.settings.root).size() == 1);  // hits are not copied down
  CHECK(entries_below(rig.tmp / "first").size() == 1);
}

TEST_CASE("cache front: candidates are tried best first, the compile belongs to the first") {
  Rig rig;
  const std::vector<Key> candidates = {test_key(1), test_key(2), test_key(3)};
  {
    Cache cache(rig.settings);
    cache.get_or_compile(test_key(3), rig.compile(3));
    cache.get_or_compile(test_key(2), rig.compile(2));
  }
  Cache cache(rig.settings);
  Result result = cache.get_or_compile(candidates, rig.no_compile());
  CHECK(result.entry == test_entry(2));
  CHECK(result.key_index == 1);
  CHECK(result.source == Source::disk);
  result = cache.get_or_compile(candidates, rig.no_compile());
  CHECK(result.source == Source::memory);
  CHECK(result.key_index == 1);
  cache.reject(candidates[0]);
  cache.reject(candidates[1]);
  cache.reject(candidates[2]);
  result = cache.get_or_compile(candidates, rig.compile(1));
  CHECK(result.key_index == 0);
  CHECK(result.source == Source::compiled);
  CHECK_THROWS_AS(cache.get_or_compile(std::span<const Key>(), rig.compile(1)), InternalError);
}

TEST_CASE("cache front: what a driver refused is compiled once more, also when a layer still holds it") {
  Rig rig;
  CacheSettings fill = rig.settings;
  fill.root = rig.tmp / "layer";
  {
    Cache(fill).get_or_compile(test_key(1), rig.compile(1));
  }
  {
    Cache(rig.settings).get_or_compile(test_key(2), rig.compile(2));
  }
  rig.settings.layers = {{rig.tmp / "layer", ""}};
  Cache cache(rig.settings);
  for (std::uint64_t n : {1, 2}) {
    cache.get_or_compile(test_key(n), rig.no_compile());
    cache.reject(test_key(n));
    CHECK(cache.get_or_compile(test_key(n), rig.compile(n + 10)) == test_entry(n + 10));
    CHECK(cache.get_or_compile(test_key(n), rig.no_compile()) == test_entry(n + 10));
  }
  CHECK(cache.counters().rejected == 2);
  check_sum(cache);
}

TEST_CASE("cache front: 64 threads and 40 kernels, one compile for each kernel") {
  Rig rig;
  Cache cache(rig.settings);
  constexpr int thread_count = 64, kernels = 40;
  std::atomic<int> compiles{0}, wrong{0};
  std::barrier start(thread_count);
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int k = 0; k < kernels; ++k) {
        const auto n = static_cast<std::uint64_t>((k + t) % kernels);
        const Entry e = cache.get_or_compile(test_key(n), [&] {
          ++compiles;
          return test_entry(n);
        });
        if (e != test_entry(n)) ++wrong;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(compiles == kernels);
  CHECK(wrong == 0);
  CHECK(cache.counters().lookups == thread_count * kernels);
  CHECK(cache.counters().compiled == kernels);
  check_sum(cache);
}

TEST_CASE("cache front: waiters of a failing compile all get its exception, and it is compiled once") {
  Rig rig;
  Cache cache(rig.settings);
  std::atomic<int> compiles{0}, caught{0};
  std::barrier start(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      try {
        cache.get_or_compile(test_key(1), [&]() -> Entry {
          ++compiles;
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          throw std::runtime_error("no");
        });
      } catch (const std::runtime_error&) {
        ++caught;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(caught == 8);
  CHECK(compiles < 8);
  CHECK(cache.counters().failed == 8);
  check_sum(cache);
}

TEST_CASE("cache front: a lock that another process will not give up delays the compile, it does not prevent it") {
  Rig rig;
  rig.settings.lock_timeout = std::chrono::milliseconds(60);
  Cache cache(rig.settings);
  cache.get_or_compile(test_key(0), rig.compile(0));
  const int version = ::open((rig.settings.root + "/v1").c_str(), O_RDONLY | O_DIRECTORY);
  {
    LockFile holder(version, 0600);
    REQUIRE(holder.try_lock(lock_byte_of(test_key(1).address())) == LockFile::Outcome::held);
    CHECK(cache.get_or_compile(test_key(1), rig.compile(1)) == test_entry(1));
  }
  ::close(version);
  CHECK(cache.counters().lock_timeouts == 1);
  fs::remove(rig.settings.root + "/v1/locks");
  fs::create_directory(rig.settings.root + "/v1/locks");
  CHECK(cache.get_or_compile(test_key(2), rig.compile(2)) == test_entry(2));
  CHECK(rig.lines.empty());
}

TEST_CASE("cache front: whoever waits for another process takes what it publishes") {
  Rig rig;
  Cache cache(rig.settings), other(rig.settings);  // two caches lock against each other as two processes do
  std::barrier locked(2);
  std::thread compiling([&] {
    other.get_or_compile(test_key(1), [&] {
      locked.arrive_and_wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return test_entry(1);
    });
  });
  locked.arrive_and_wait();
  CHECK(cache.get_or_compile(test_key(1), rig.no_compile()) == test_entry(1));
  compiling.join();
  CHECK(cache.counters().waited == 1);
  check_sum(cache);
}

Key variant(const std::string& target, std::uint64_t warps, bool aligned, const std::string& kernel = "matmul") {
  return KeyWriter({"codegen", "19", target, "cubin", "ptxas"})
      .natural("num_warps", warps)
      .boolean("x is aligned to 16", aligned)
      .finish(kernel);
}

TEST_CASE("cache front: a sealed miss names the kernel and the first field that differs from the nearest variant") {
  Rig rig;
  {
    Cache cache(rig.settings);
    for (const Key& key : {variant("sm_80", 4, true), variant("sm_90a", 8, true), variant("sm_90a", 2, false, "add")}) {
      cache.get_or_compile(key, rig.compile(1, key.kernel_name()));
    }
  }
  rig.settings.mode = CacheMode::ro;
  rig.settings.jit = JitMode::forbid;
  Cache cache(rig.settings);
  CHECK(cache.get_or_compile(variant("sm_90a", 8, true), rig.no_compile()).payload.size() == 100);
  const auto message = [&](const Key& key) -> std::string {
    try {
      cache.get_or_compile(key, rig.no_compile());
    } catch (const CacheError& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string help =
      "\n  help: warm the cache with this variant: record a run with TILEWEAVE_RECORD, then use 'tileweave warmup'";
  CHECK(message(variant("sm_90a", 8, false)) ==
        "error: kernel 'matmul' is not in the cache, and TILEWEAVE_JIT=forbid: the nearest of 2 cached variants "
        "differs in "
        "'x is aligned to 16': false here, true there" +
            help);
  CHECK(message(variant("sm_80", 8, false)) ==
        "error: kernel 'matmul' is not in the cache, and TILEWEAVE_JIT=forbid: the nearest of 2 cached variants "
        "differs in "
        "'num_warps': 8 here, 4 there, and in 1 more field" +
            help);
  CHECK(
      message(variant("sm_100", 2, false, "add")) ==
      "error: kernel 'add' is not in the cache, and TILEWEAVE_JIT=forbid: the one cached variant differs in 'target': "
      "\"sm_100\" here, \"sm_90a\" there" +
          help);
  CHECK(message(variant("sm_80", 16, true, "softmax")).find("no variant of it is cached") != std::string::npos);
  CHECK(cache.counters().failed == 4);
  check_sum(cache);
}

TEST_CASE("cache front: the log says what every lookup found") {
  Rig rig;
  rig.settings.log = true;
  Cache cache(rig.settings);
  cache.get_or_compile(test_key(1, "add"), rig.compile(1));
  cache.get_or_compile(test_key(1, "add"), rig.no_compile());
  const std::string head = "tileweave: cache: kernel 'add' " + test_key(1).address().hex();
  REQUIRE(rig.lines.size() == 2);
  CHECK(rig.lines[0] == head + ": compiled");
  CHECK(rig.lines[1] == head + ": memory");
}

TEST_CASE("cache settings: layers, pins and what is wrong with them") {
  std::vector<std::string> complaints;
  const std::string digest(64, 'a');
  CHECK(parse_layers("", complaints).empty());
  CHECK(parse_layers("/a.pack@sha256:" + std::string(64, 'A') + ":/b::/c.pack", complaints) ==
        std::vector<LayerSetting>{{"/a.pack", digest}, {"/b", ""}, {"/c.pack", ""}});
  CHECK(complaints.empty());
  CHECK(parse_layers("relative:/a@sha256:12:/b@sha256", complaints).empty());
  REQUIRE(complaints.size() == 3);
  CHECK(complaints[0] == "TILEWEAVE_CACHE_LAYERS: 'relative' is not an absolute path; layer ignored");
  CHECK(complaints[1] == "TILEWEAVE_CACHE_LAYERS: the digest of /a is not 64 hexadecimal digits; layer ignored");
}

TEST_CASE("cache settings: the root is the named one, else XDG's, else below the home, which is not made") {
  const auto settings = [](std::vector<std::pair<std::string, std::string>> variables) {
    EnvSource source;
    source.lookup = [&](const char* name) -> std::optional<std::string> {
      for (const auto& [n, v] : variables) {
        if (n == name) return v;
      }
      return std::nullopt;
    };
    source.warn = [](const std::string&) {};
    return settings_from(read_env(source));
  };
  CHECK(settings({{"TILEWEAVE_CACHE_DIR", "/c"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}).root == "/c");
  CHECK(settings({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}).root == "/x/tileweave");
  CHECK(settings({{"HOME", "/h"}}).root == "/h/.cache/tileweave");
  CHECK(settings({{"HOME", "/h"}}).must_exist == "/h");
  CHECK(settings({{"TILEWEAVE_CACHE_TRUST", "group:42"}}).trusted_group == 42U);
  CHECK_FALSE(settings({{"TILEWEAVE_CACHE_TRUST", "group:99999999999"}}).trusted_group);
  CHECK(settings({{"TILEWEAVE_LOCK_TIMEOUT", "3"}}).lock_timeout == std::chrono::seconds(3));
  CHECK(settings({{"TILEWEAVE_CACHE_MAX_SIZE", "2M"}}).max_bytes == 2U << 20);
}

}  // namespace
}  // namespace tileweave::cache
