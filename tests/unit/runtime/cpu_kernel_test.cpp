// CPU kernels: every program once, scratch, nesting, threads, failed assertions, and what may not be loaded.
// Tests jit/runtime/cpu_kernel, cpu_pool, services, launch.
#include "tileweave/jit/runtime/cpu_kernel.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/cpu_pool.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/services.h"
#include "tileweave/jit/runtime/stream.h"

namespace tileweave::runtime {
namespace {

// Counts each program in the array of slot 0.
void count_programs_run(const std::uint64_t* slots, const std::int64_t*, std::int64_t begin, std::int64_t end, void*,
                        void*) {
  auto* counts = reinterpret_cast<std::atomic<int>*>(slots[0]);
  for (std::int64_t i = begin; i < end; ++i) counts[i].fetch_add(1, std::memory_order_relaxed);
}

// A slower program, so that the grid is shared out.
void count_slowly(const std::uint64_t* slots, const std::int64_t* grid, std::int64_t begin, std::int64_t end,
                  void* scratch, void* services) {
  for (std::int64_t i = begin; i < end; ++i) {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(20)) {
    }
    count_programs_run(slots, grid, i, i + 1, scratch, services);
  }
}

bool runs_each_once(CpuEntry entry, std::int64_t x, std::int64_t y, std::int64_t z) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(x * y * z));
  const std::uint64_t slot = reinterpret_cast<std::uintptr_t>(counts.data());
  const std::int64_t grid[3] = {x, y, z};
  const CpuKernel kernel("count", entry, 0);
  Stream stream = Device::cpu().stream();
  kernel.launch(stream.state(), grid, &slot, 1, {});
  for (const auto& c : counts) {
    if (c != 1) return false;
  }
  return true;
}

TEST_CASE("every program of a grid runs once") {
  for (const std::int64_t n : {1, 2, 3, 63, 1000, 100'003}) CHECK(runs_each_once(count_programs_run, n, 1, 1));
  CHECK(runs_each_once(count_programs_run, 7, 11, 13));
  for (const std::int64_t n : {2, 17, 500}) CHECK(runs_each_once(count_slowly, n, 1, 1));
  CHECK(runs_each_once(count_programs_run, 0, 5, 5));
}

TEST_CASE("one program runs on the calling thread") {
  static std::thread::id seen;
  const CpuKernel kernel(
      "who",
      [](const std::uint64_t*, const std::int64_t*, std::int64_t, std::int64_t, void*, void*) {
        seen = std::this_thread::get_id();
      },
      0);
  const std::int64_t grid[3] = {1, 1, 1};
  kernel.launch(Device::cpu().stream().state(), grid, nullptr, 0, {});
  CHECK(seen == std::this_thread::get_id());
}

TEST_CASE("scratch is aligned, as large as asked for, and private to each call") {
  static std::atomic<int> wrong;
  wrong = 0;
  const CpuEntry entry = [](const std::uint64_t* slots, const std::int64_t*, std::int64_t begin, std::int64_t end,
                            void* scratch, void*) {
    const auto bytes = slots[0];
    auto* p = static_cast<unsigned char*>(scratch);
    if (reinterpret_cast<std::uintptr_t>(p) % 64 != 0) ++wrong;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto mark = static_cast<unsigned char>(i * 7 + 1);
      std::memset(p, mark, bytes);
      std::this_thread::yield();
      if (p[0] != mark || p[bytes / 2] != mark || p[bytes - 1] != mark) ++wrong;
    }
  };
  for (const std::int64_t bytes : {1, 64, 1000, 1 << 20, 100}) {
    const CpuKernel kernel("scratch", entry, bytes);
    const auto slot = static_cast<std::uint64_t>(bytes);
    const std::int64_t grid[3] = {200, 1, 1};
    kernel.launch(Device::cpu().stream().state(), grid, &slot, 1, {});
  }
  CHECK(wrong == 0);
  const CpuKernel greedy("greedy", entry, std::int64_t{1} << 60);
  const std::int64_t grid[3] = {1, 1, 1};
  const std::uint64_t slot = 1;
  CHECK_THROWS_WITH_AS(
      greedy.launch(Device::cpu().stream().state(), grid, &slot, 1, {"user.cpp", 7}),
      "user.cpp:7: error: kernel 'greedy': no memory for 1152921504606846976 bytes of scratch per worker", LaunchError);
}

TEST_CASE("launches nest and come from many threads") {
  static const CpuKernel inner("inner", count_slowly, 0);
  const CpuEntry outer_entry = [](const std::uint64_t* slots, const std::int64_t*, std::int64_t begin, std::int64_t end,
                                  void*, void*) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t slot = slots[0];
      const std::int64_t grid[3] = {8, 1, 1};
      inner.launch(Device::cpu().stream().state(), grid, &slot, 1, {});
    }
  };
  const CpuKernel outer("outer", outer_entry, 0);
  std::vector<std::atomic<int>> counts(8);
  const std::uint64_t slot = reinterpret_cast<std::uintptr_t>(counts.data());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const std::int64_t grid[3] = {10, 1, 1};
      outer.launch(Device::cpu().stream().state(), grid, &slot, 1, {});
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& c : counts) CHECK(c == 80);
}

TEST_CASE("a failed device_assert is an error after the grid has run, naming the first program that failed") {
  static std::atomic<int> ran;
  ran = 0;
  const CpuKernel kernel(
      "checked",
      [](const std::uint64_t*, const std::int64_t*, std::int64_t begin, std::int64_t end, void*, void* services) {
        for (std::int64_t i = begin; i < end; ++i, ++ran) {
          if (i == 3) tileweave_assert_failed(services, "x.cpp:5", "index is in range", i);
        }
      },
      0);
  const std::int64_t grid[3] = {10, 1, 1};
  try {
    kernel.launch(Device::cpu().stream().state(), grid, nullptr, 0, {"user.cpp", 9});
    FAIL("no error");
  } catch (const LaunchError& e) {
    CHECK(e.kind() == LaunchError::Kind::fault);
    CHECK(std::string(e.what()) ==
          "x.cpp:5: error: kernel 'checked': device_assert failed in program 3: index is in range");
  }
  CHECK(ran == 10);
}

TEST_CASE("device_print writes one whole line") {
  std::fflush(stdout);
  char path[] = "/tmp/tileweave_print_XXXXXX";
  const int file = mkstemp(path), saved = dup(1);
  dup2(file, 1);
  LaunchServices services;
  services.kernel = "k";
  const float values[3] = {1.5f, -2.0f, 0.1f};
  tileweave_print(&services, "a.cpp:7", "x", 4, static_cast<int>(Dtype::f32), values, 3);
  const std::int8_t small[2] = {-128, 127};
  tileweave_print(&services, "", "", 5, static_cast<int>(Dtype::i8), small, 2);
  std::fflush(stdout);
  dup2(saved, 1);
  close(saved);
  close(file);
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  unlink(path);
  CHECK(text == "a.cpp:7: k[4] x: 1.5 -2 0.100000001\nk[5]: -128 127\n");
}

TEST_CASE("a compiled object runs through load_kernel") {
  if (std::system("clang-19 --version > /dev/null 2>&1") != 0) {
    MESSAGE("skipped: clang-19 is not installed");
    return;
  }
  const auto dir = std::filesystem::temp_directory_path() / ("tileweave_kernel_" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "k.c") << R"(
typedef unsigned long u64; typedef long i64;
void add_one(const u64* s, const i64* grid, i64 begin, i64 end, float* scratch, void* services) {
  (void)services; const float* x = (const float*)s[0]; float* y = (float*)s[3]; i64 n = (i64)s[1];
  float a; __builtin_memcpy(&a, &s[6], 4);
  for (i64 p = begin; p < end; ++p)
    for (i64 i = p * 64; i < n && i < p * 64 + 64; ++i) { scratch[i & 63] = x[i * (i64)s[2]] + a; y[i] = scratch[i & 63] + (float)grid[1]; }
})";
  const std::string c = dir / "k.c", o = dir / "k.o";
  REQUIRE(std::system(("clang-19 -c -O2 -fPIC " + c + " -o " + o).c_str()) == 0);
  std::ifstream in(o, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove_all(dir);
  Binary b;
  b.entry = "add_one";
  b.target = Device::cpu().target();
  b.scratch_bytes = 256;
  b.code.assign(reinterpret_cast<const std::byte*>(bytes.data()),
                reinterpret_cast<const std::byte*>(bytes.data() + bytes.size()));
  const auto kernel = load_kernel(Device::cpu(), b, "add_one");
  std::vector<float> x(2000), y(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const std::uint64_t slots[] = {reinterpret_cast<std::uintptr_t>(x.data()),
                                 1000,
                                 2,
                                 reinterpret_cast<std::uintptr_t>(y.data()),
                                 1000,
                                 1,
                                 scalar_slot(0.5f)};
  const std::int64_t grid[3] = {16, 1, 1};
  kernel->launch(Device::cpu().stream().state(), grid, slots, 7);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == static_cast<float>(2 * i) + 1.5f);

  b.entry = "absent";
  CHECK_THROWS_WITH_AS(load_kernel(Device::cpu(), b, "add_one", {"user.cpp", 3}),
                       "user.cpp:3: error: kernel 'add_one': its object has no function 'absent'\n  help: the stored "
                       "object is damaged or not ours; clear the cache and let it be compiled again",
                       LaunchError);
  b.kind = Binary::Kind::cubin;
  b.target = "sm_90a";
  CHECK_THROWS_AS(load_kernel(Device::cpu(), b, "add_one"), LaunchError);
}

TEST_CASE("more than 500 slots are refused") {
  const CpuKernel kernel("many", count_programs_run, 0);
  const std::int64_t grid[3] = {0, 1, 1};
  kernel.launch(Device::cpu().stream().state(), grid, nullptr, 500, {});
  CHECK_THROWS_WITH_AS(kernel.launch(Device::cpu().stream().state(), grid, nullptr, 501, {}),
                       "error: kernel 'many': the arguments take 501 slots of 8 bytes; 500 is the limit\n  help: pass "
                       "fewer views, or views of lower rank",
                       LaunchError);
}

TEST_CASE("a child after fork runs grids on its own thread") {
  REQUIRE(runs_each_once(count_slowly, 50, 1, 1));  // the parent has workers now
  const pid_t child = fork();
  if (child == 0) _exit(runs_each_once(count_slowly, 50, 1, 1) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

}  // namespace
}  // namespace tileweave::runtime
