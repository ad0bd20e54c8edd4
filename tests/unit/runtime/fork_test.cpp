// A fork while other threads are in the tables and first uses of the run time: the child finds them free and whole.
#include "tileweave/jit/base/fork.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tileweave/jit/base/host_function.h"
#include "tileweave/jit/base/print_text.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/gdb_jit.h"
#include "tileweave/jit/runtime/host_pool.h"
#include "tileweave/jit/runtime/launch.h"

using namespace tileweave;

namespace {

constexpr int forks = 300, threads_at_work = 6;

// Forks while threads do `work` all the time. A child does it once, too, and has a second; gives how many did not end.
int hung_children(const std::function<void(int)>& work) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_at_work; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; !stop; i += threads_at_work) work(i);
    });
  }
  int hung = 0;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // a loaded machine needs some
      work(-1 - i);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    hung += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (hung > 2) break;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  return hung;
}

}  // namespace

TEST_CASE("fork: the host's memory pool is free in the child") {
  (void)Device::cpu();
  CHECK(hung_children([](int) {
          auto& pool = runtime::HostPool::instance();
          std::byte* blocks[16];
          for (int k = 0; k < 16; ++k) blocks[k] = pool.allocate(64 << (k % 8));
          for (int k = 0; k < 16; ++k) pool.free(blocks[k], 64 << (k % 8));
        }) == 0);
}

TEST_CASE("fork: tables of names, of host functions and of the debugger are free in the child") {
  (void)Device::cpu();
  static constexpr std::byte file[4] = {};
  CHECK(hung_children([](int i) {
          for (int k = 0; k < 8; ++k) {
            const std::string name = "name" + std::to_string((i + k) % 50);
            (void)runtime::intern(name);
            (void)ir::intern_path(name);
            (void)place_from_text(name + ":7");
            register_host_function("fork_test", {});
            (void)find_host_function("fork_test");
          }
          void* const entry = runtime::register_with_debugger(file);
          runtime::unregister_from_debugger(entry);
        }) == 0);
}

TEST_CASE("fork: a first use is never cut in half, and a child can make what its parent has not") {
  (void)Device::cpu();
  struct Slow {
    std::atomic<int> a{1}, b{0};
    Slow() {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      b = 1;
    }
  };
  static std::vector<Once<Slow>> onces(4000);  // each thread goes through them; most are new for whoever comes first
  CHECK(hung_children([](int i) {
          const std::size_t at = static_cast<std::size_t>(i < 0 ? 3999 + i : i) % onces.size();
          Slow& slow = onces[at].get([] { return new Slow; });
          if (slow.b != 1) ::_exit(3);
        }) == 0);
}

TEST_CASE("fork: within a first use") {
  (void)Device::cpu();
  static constinit Once<int> outer, inner;
  int status = -1;
  CHECK(outer.get([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(inner.get([] { return new int(4); }));
    }
    ::waitpid(child, &status, 0);
    return new int(5);
  }) == 5);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 4);
  CHECK_FALSE(is_forked_child());
}
