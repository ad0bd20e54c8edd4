// One compile for each key in a process: waiters, exceptions, bounds, and a fork in the middle of it.
#include "tileweave/cache/memory.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <barrier>
#include <stdexcept>
#include <vector>

#include "temporary_directory.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

std::shared_ptr<const HeldEntry> held(std::uint64_t n, std::size_t bytes = 100) {
  return std::make_shared<const HeldEntry>(HeldEntry{test_entry(n, bytes), 0});
}

TEST_CASE("cache memory: the first to ask owns the compile, the others get its entry") {
  MemoryMap map(100, 1 << 20);
  const auto owner = map.join(test_key(1));
  REQUIRE(owner.is_owner);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto seat = map.join(test_key(1));
      const auto entry = seat.entry ? seat.entry : seat.flight->wait();
      if (!seat.is_owner && entry->entry == test_entry(1)) ++right;
    });
  }
  map.land(test_key(1), owner.flight, held(1));
  for (auto& t : threads) t.join();
  CHECK(right == 8);
  CHECK(map.join(test_key(1)).entry);
  CHECK(map.size() == 1);
}

TEST_CASE("cache memory: an exception reaches every waiter and is not remembered") {
  MemoryMap map(100, 1 << 20);
  const auto owner = map.join(test_key(1));
  std::vector<std::shared_ptr<Flight>> flights;
  std::thread([&] {
    for (int i = 0; i < 8; ++i) flights.push_back(map.join(test_key(1)).flight);
  }).join();
  map.crash(test_key(1), owner.flight, std::make_exception_ptr(std::runtime_error("no")));
  for (const auto& flight : flights) CHECK_THROWS_WITH_AS(flight->wait(), "no", std::runtime_error);
  CHECK(map.join(test_key(1)).is_owner);
}

TEST_CASE("cache memory: a compile that asks for its own kernel is told so instead of waiting for itself") {
  MemoryMap map(100, 1 << 20);
  const auto owner = map.join(test_key(1));
  CHECK_THROWS_AS(map.join(test_key(1)), InternalError);
  CHECK(map.join(test_key(2)).is_owner);  // other kernels are no trouble
  map.land(test_key(1), owner.flight, held(1));
  CHECK(map.join(test_key(1)).entry);
}

TEST_CASE("cache memory: colliding addresses are told apart by the blob") {
  set_address_bits_for_test(0);
  const Key a = test_key(1), b = test_key(2);
  set_address_bits_for_test(128);
  REQUIRE(a.address() == b.address());
  MemoryMap map(100, 1 << 20);
  const auto first = map.join(a), second = map.join(b);
  CHECK(second.is_owner);
  map.land(a, first.flight, held(1));
  map.land(b, second.flight, held(2));
  CHECK(map.join(a).entry->entry == test_entry(1));
  CHECK(map.join(b).entry->entry == test_entry(2));
}

TEST_CASE("cache memory: the number and the bytes of remembered entries are bounded, the latest used stay") {
  set_address_bits_for_test(0);  // one shard, so that the order is exact
  std::vector<Key> keys;
  for (std::uint64_t i = 0; i < 50; ++i) keys.push_back(test_key(i));
  set_address_bits_for_test(128);
  const auto put = [](MemoryMap& map, const Key& key, std::uint64_t n, std::size_t bytes) {
    const auto seat = map.join(key);
    if (seat.is_owner) map.land(key, seat.flight, held(n, bytes));
    return seat.is_owner;
  };
  MemoryMap by_count(8 * 4, 8 << 20);
  for (std::uint64_t i = 0; i < 50; ++i) {
    put(by_count, keys[i], i, 10);
    put(by_count, keys[0], 0, 10);  // kept alive by use
  }
  CHECK(by_count.size() == 4);
  CHECK_FALSE(put(by_count, keys[0], 0, 10));
  CHECK_FALSE(put(by_count, keys[49], 49, 10));
  CHECK(put(by_count, keys[10], 10, 10));

  MemoryMap by_bytes(8 * 1000, 8 * 10000);
  for (std::uint64_t i = 0; i < 50; ++i) put(by_bytes, keys[i], i, 1800);
  CHECK(by_bytes.size() < 6);
  CHECK(by_bytes.size() > 3);
  CHECK(put(by_bytes, test_key(99), 99, 20000));  // larger than the bound: served, not kept
  CHECK(put(by_bytes, test_key(99), 99, 20000));

  MemoryMap nothing(0, 0);
  CHECK(put(nothing, keys[0], 0, 10));
  CHECK(put(nothing, keys[0], 0, 10));
}

TEST_CASE("cache memory: a rejected key is forgotten and marked") {
  MemoryMap map(100, 1 << 20);
  const auto seat = map.join(test_key(1));
  map.land(test_key(1), seat.flight, held(1));
  CHECK_FALSE(map.is_rejected(test_key(1)));
  map.reject(test_key(1));
  CHECK(map.is_rejected(test_key(1)));
  CHECK_FALSE(map.is_rejected(test_key(2)));
  CHECK(map.join(test_key(1)).is_owner);
  for (std::uint64_t i = 0; i < 20000; ++i) map.reject(test_key(i));  // bounded: this must not grow without end
  CHECK(map.is_rejected(test_key(19999)));
}

TEST_CASE("cache memory: a child forked while its parent compiles owns the compile anew and never waits") {
  MemoryMap map(100, 1 << 20);
  std::barrier stage(2);
  std::thread parent_compile([&] {
    const auto seat = map.join(test_key(1));
    stage.arrive_and_wait();
    stage.arrive_and_wait();
    map.land(test_key(1), seat.flight, held(1));
  });
  stage.arrive_and_wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a wait for a thread that is not here would never end
    const auto seat = map.join(test_key(1));
    if (!seat.is_owner) ::_exit(2);
    map.land(test_key(1), seat.flight, held(7));
    ::_exit(map.join(test_key(1)).entry->entry == test_entry(7) ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  stage.arrive_and_wait();
  parent_compile.join();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(map.join(test_key(1)).entry->entry == test_entry(1));
}

TEST_CASE("cache memory: a compile that itself forks can be finished in parent and child") {
  MemoryMap map(100, 1 << 20);
  const auto seat = map.join(test_key(1));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    map.land(test_key(1), seat.flight, held(1));  // its flight is no longer in the table
    ::_exit(map.join(test_key(1)).is_owner ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  map.land(test_key(1), seat.flight, held(1));
  CHECK(map.join(test_key(1)).entry);
}

}  // namespace
}  // namespace tileweave::cache
