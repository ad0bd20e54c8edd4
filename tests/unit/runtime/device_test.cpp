// Devices, streams and events of the host, and which device is the best one.
// Tests jit/runtime/device, stream, host_device, cpu_target, host_pool.
#include "tileweave/jit/runtime/device.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/cpu_target.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/host_pool.h"
#include "tileweave/jit/runtime/stream.h"

namespace tileweave {
namespace {

struct DeviceWish {
  explicit DeviceWish(const char* value) {
    setenv("TILEWEAVE_DEVICE", value, 1);
    reload_env_for_test();
  }
  ~DeviceWish() {
    unsetenv("TILEWEAVE_DEVICE");
    reload_env_for_test();
  }
};

TEST_CASE("host devices are what they say") {
  CHECK(Device::cpu().kind() == DeviceKind::cpu);
  CHECK(Device::cpu() == Device::cpu());
  CHECK(Device::cpu() != Device::interpret());
  CHECK(Device::interpret().kind() == DeviceKind::interpret);
  CHECK(Device::interpret().target() == "interpret");
  CHECK(Device::simt("sm_86").target() == "simt:sm_86");
  CHECK(Device::simt("sm_86") == Device::simt("sm_86"));
  CHECK(Device::simt("sm_86") != Device::simt());
  CHECK(Device::simt().name() == "simt sm_90a");
  CHECK(Device::simt("sm_89").facts().compute_minor == 9);
  CHECK(Device::cpu().facts().units >= 1);
  CHECK(Device::cpu().facts().memory_bytes > (1 << 26));
  CHECK(Device::cpu().is_host());
  CHECK_THROWS_WITH_AS(Device::simt("sm_70", Place("user.cpp", 4)),
                       "user.cpp:4: error: there is no emulator for target 'sm_70'\n  help: use sm_80, sm_86, sm_89 or "
                       "sm_90a",
                       LaunchError);
}

TEST_CASE("TILEWEAVE_DEVICE chooses the best device") {
  const auto best_kind = [](const char* wish) {
    const DeviceWish w(wish);
    return Device::best().kind();
  };
  CHECK(best_kind("cpu") == DeviceKind::cpu);
  CHECK(best_kind("interpret") == DeviceKind::interpret);
  CHECK(best_kind("simt") == DeviceKind::simt);
  {
    const DeviceWish w("simt:sm_80");
    CHECK(Device::best().target() == "simt:sm_80");
  }
  if (Device::count_cuda() == 0) {
    CHECK(Device::best() == Device::cpu());
    CHECK_FALSE(Device::why_no_cuda().empty());
    const DeviceWish w("cuda");
    CHECK_THROWS_AS(Device::best(), LaunchError);
  } else {
    CHECK(Device::best().kind() == DeviceKind::cuda);
  }
}

TEST_CASE("the CPU's target names a CPU and sorted features that the host has") {
  const std::string text = Device::cpu().target();
#ifdef __x86_64__
  REQUIRE(text.starts_with("x86-64:"));
  std::string previous;
  int count = 0;
  for (std::size_t at = text.find('+'); at != std::string::npos; at = text.find('+', at + 1)) {
    const std::string feature = text.substr(at + 1, text.find('+', at + 1) - at - 1);
    CHECK(previous < feature);
    previous = feature;
    ++count;
  }
  CHECK(count >= 5);
  __builtin_cpu_init();
  CHECK((text.find("+avx2") != std::string::npos) == (__builtin_cpu_supports("avx2") != 0));
  CHECK((text.find("+avx512vl") != std::string::npos) == (__builtin_cpu_supports("avx512vl") != 0));
  CHECK((text.find("+fma") != std::string::npos) == (__builtin_cpu_supports("fma") != 0));
  const int bits = Device::cpu().facts().vector_bits;
  CHECK((bits == 512) == (__builtin_cpu_supports("avx512f") != 0));
#endif
  CHECK_FALSE(Device::cpu().name().empty());
}

TEST_CASE("streams of the host are handles without a queue") {
  const Device cpu = Device::cpu();
  Stream a(cpu, -1), b = cpu.stream();
  CHECK(cpu.stream() == b);
  CHECK_FALSE(a == b);
  CHECK(a.native() == nullptr);
  CHECK(a.is_idle());
  a.wait(b.record());
  b.synchronize();
  const Event start = a.record(), end = a.record();
  CHECK(end.has_passed());
  CHECK(end.elapsed_ms_since(start) >= 0);
  CHECK(Event().has_passed());
  Stream moved = std::move(a);
  CHECK(moved.device() == cpu);
  b = moved;
  CHECK(b == moved);
  int foreign = 0;
  CHECK(Stream::wrap(nullptr, cpu) == cpu.stream());
  CHECK_THROWS_AS(Stream::wrap(&foreign, cpu), LaunchError);
}

TEST_CASE("a stream that is dropped is handed out again") {
  runtime::StreamState* first = nullptr;
  {
    Stream s{Device::cpu()};
    first = &s.state();
  }
  Stream again{Device::cpu()};
  CHECK(&again.state() == first);
}

TEST_CASE("the ring of launches names the newest first and counts") {
  runtime::LaunchRing ring;
  CHECK(ring.text().empty());
  const char *a = "add", *b = "softmax";
  for (const char* name : {a, b, a}) ring.note(name);
  CHECK(ring.text() == "'add' (2 times), 'softmax'");
  ring.clear();
  CHECK(ring.text().empty());
  for (int i = 0; i < 100; ++i) ring.note(b);
  CHECK(ring.text() == "'softmax' (64 times)");
}

TEST_CASE("the host pool: alignment, classes, reuse, nothing touched") {
  using runtime::HostPool;
  for (const std::int64_t n : {1, 64, 65, 1000, 4097, 1 << 20, (1 << 20) + 1, 10'000'000}) {
    CHECK(HostPool::class_of(n) >= n);
    CHECK(HostPool::class_of(n) <= n + n / 4 + (n < (1 << 20) ? 64 : (2 << 20)));
    CHECK(HostPool::class_of(HostPool::class_of(n)) == HostPool::class_of(n));
  }
  HostPool& pool = HostPool::instance();
  std::byte* p = pool.allocate(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
  pool.free(p, 1000);
  CHECK(pool.allocate(1010) == p);
  pool.free(p, 1010);
  pool.trim();
  CHECK(pool.kept_bytes() == 0);
  // 2^40 bytes cannot be touched here, only mapped.
  struct rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  std::byte* big = pool.allocate(std::int64_t{1} << 36);
  REQUIRE(big != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(big) % (2 << 20) == 0);
  big[(std::int64_t{1} << 36) - 1] = std::byte{1};
  getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < (64 << 10));  // KiB
  pool.free(big, std::int64_t{1} << 36);
  CHECK(pool.kept_bytes() == 0);
  CHECK(pool.allocate(INT64_MAX) == nullptr);
  CHECK(pool.allocate(std::int64_t{1} << 60) == nullptr);
}

}  // namespace
}  // namespace tileweave
