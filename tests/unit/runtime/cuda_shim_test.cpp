// The CUDA runtime against a stand-in for the driver: calls counted, errors on request, no GPU needed.
// Tests jit/runtime/cuda_*. Each scenario runs in a child of this executable, since a process has one driver.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/launch.h"
#include "tileweave/jit/runtime/tensor.h"

#ifndef TILEWEAVE_BINARY_DIR
#define TILEWEAVE_BINARY_DIR "."
#endif

namespace tileweave::runtime {
namespace {

// A function of the stand-in.
template <class F>
F* shim(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  REQUIRE(library != nullptr);
  void* f = dlsym(library, name);
  REQUIRE(f != nullptr);
  return reinterpret_cast<F*>(f);
}
long calls() { return shim<long()>("shim_calls")(); }
long count(const char* name) { return shim<long(const char*)>("shim_count")(name); }
long live() { return shim<long()>("shim_live_allocations")(); }
void fail(const char* name, int result) { shim<void(const char*, int)>("shim_fail")(name, result); }
void* current_context() { return shim<void*()>("shim_current_context")(); }

struct LastLaunch {
  unsigned x, y, threads, smem, attributes;
  std::size_t bytes;
  std::uint64_t parameters[504];
};
const LastLaunch& last() { return *shim<const LastLaunch*()>("shim_last_launch")(); }

// Makes a device's context current, as a foreign library would.
struct Current {
  explicit Current(int device = 0) {
    void* context = nullptr;
    shim<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device);
    shim<int(void*)>("cuCtxPushCurrent_v2")(context);
  }
  ~Current() {
    void* context = nullptr;
    shim<int(void**)>("cuCtxPopCurrent_v2")(&context);
  }
};
struct Capture {
  explicit Capture(const Stream& s) : stream(s) { shim<int(void*, int)>("cuStreamBeginCapture_v2")(s.native(), 0); }
  ~Capture() {
    void* graph = nullptr;
    shim<int(void*, void**)>("cuStreamEndCapture")(stream.native(), &graph);
  }
  Stream stream;
};

Binary ptx(const std::string& text = "entry k", int threads = 128, std::int64_t smem = 0) {
  Binary b;
  b.kind = Binary::Kind::ptx;
  b.entry = "k";
  b.target = "sm_90a";
  b.threads_per_block = threads;
  b.smem_bytes = smem;
  b.code.assign(reinterpret_cast<const std::byte*>(text.data()),
                reinterpret_cast<const std::byte*>(text.data() + text.size()));
  return b;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const LaunchError& e) {
    return e.what();
  }
  return "no error";
}

AnyTensor floats(const Device& d, std::int64_t n, Memory memory = Memory::device) {
  return AnyTensor::empty(d, Dtype::f32, {n}, memory);
}

constexpr std::int64_t one[3] = {1, 1, 1};

std::atomic<long> heap_allocations{0};

}  // namespace
}  // namespace tileweave::runtime

// Counts every allocation of the executable; the tests of launches look at it. The sanitizers have allocators of their
// own, which must not be mixed with these.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  tileweave::runtime::heap_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(n != 0 ? n : 1);
}
[[gnu::noinline]] void* operator new(std::size_t n) {
  tileweave::runtime::heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(n != 0 ? n : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a) {
  tileweave::runtime::heap_allocations.fetch_add(1, std::memory_order_relaxed);
  const auto align = static_cast<std::size_t>(a);
  if (void* p = std::aligned_alloc(align, (n + align - 1) / align * align)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace tileweave::runtime {
namespace {

TEST_SUITE_BEGIN("shim" * doctest::skip());

TEST_CASE("shim: facts of the devices") {
  CHECK(Device::count_cuda() == 2);
  CHECK(Device::why_no_cuda().empty());
  CHECK(Device::best() == Device::cuda(0));
  const Device d = Device::cuda(1);
  CHECK(d.name() == "Shim GPU");
  CHECK(d.target() == "sm_90a");
  CHECK(d.facts().units == 132);
  CHECK(d.facts().driver_version == 12080);
  CHECK(d.facts().stream_ordered_pool);
  CHECK(error_of([] { Device::cuda(7, Place("user.cpp", 2)); }) ==
        "user.cpp:2: error: there is no CUDA device 7\n  help: the driver has devices 0 to 1");
  CHECK(current_context() == nullptr);
}

TEST_CASE("shim: a steady-state launch is one driver call, without allocation, on any number of slots") {
  const Device d = Device::cuda(0);
  const auto kernel = load_kernel(d, ptx(), "k");
  const Stream stream = d.stream();
  const AnyTensor x = floats(d, 1000);
  const Current context;
  for (const int n : {0, 7, 20, 58, 500}) {
    std::vector<std::uint64_t> slots(static_cast<std::size_t>(n));
    std::iota(slots.begin(), slots.end(), 100u);
    kernel->launch(stream.state(), one, slots.data(), n);
    const long before = calls(), allocated = heap_allocations;
    for (int i = 0; i < 1000; ++i) {
      x.use_on(stream.state(), {});
      kernel->launch(stream.state(), one, slots.data(), n);
    }
    const long made = heap_allocations - allocated;
    CHECK(calls() - before == 1000);
    CHECK(made == 0);
    CHECK(last().bytes == static_cast<std::size_t>(n + 3) * 8);
    for (int i = 0; i < n; ++i) CHECK(last().parameters[i] == 100u + static_cast<unsigned>(i));
  }
}

TEST_CASE("shim: the grid goes folded into the launch and whole into the parameters") {
  const Device d = Device::cuda(0);
  const auto kernel = load_kernel(d, ptx(), "k");
  const std::int64_t grid[3] = {65536, 32768, 1};
  kernel->launch(d.stream().state(), grid, nullptr, 0);
  CHECK(last().x == 1u << 30);
  CHECK(last().y == 2);
  CHECK(last().parameters[0] == 65536);
  CHECK(last().parameters[1] == 32768);
  CHECK(last().parameters[2] == 1);
  const std::int64_t none[3] = {0, 3, 1};
  const long before = calls();
  kernel->launch(d.stream().state(), none, nullptr, 0);
  CHECK(calls() == before);
  const std::int64_t negative[3] = {1, -1, 1};
  CHECK_THROWS_AS(kernel->launch(d.stream().state(), negative, nullptr, 0), LaunchError);
}

TEST_CASE("shim: foreign contexts are left as found, and the launch still reaches its device") {
  const Device d0 = Device::cuda(0), d1 = Device::cuda(1);
  const auto k0 = load_kernel(d0, ptx(), "k"), k1 = load_kernel(d1, ptx(), "k");
  for (int round = 0; round < 600; ++round) {  // none current
    k0->launch(d0.stream().state(), one, nullptr, 0);
    k1->launch(d1.stream().state(), one, nullptr, 0);
    if (current_context() != nullptr) FAIL("a context was left behind");
  }
  const Current context(1);
  void* const found = current_context();
  k0->launch(d0.stream().state(), one, nullptr, 0);
  CHECK(current_context() == found);
  const AnyTensor x = floats(d0, 100);
  x.to_host();
  d0.synchronize();
  CHECK(current_context() == found);
  CHECK_THROWS_AS(k0->launch(d1.stream().state(), one, nullptr, 0), LaunchError);
  CHECK(error_of([&] { require_reachable(x, d1.stream(), "argument 'x'", Place("user.cpp", 8)); }) ==
        "user.cpp:8: error: argument 'x' is on Shim GPU (cuda:0), the stream on Shim GPU (cuda:1)\n  help: copy it "
        "there with .to(device), or launch on a stream of its device");
}

TEST_CASE("shim: two devices from two threads, alternating") {
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const Device d = Device::cuda((t + i) % 2);
        const AnyTensor x = AnyTensor::zeros(d, Dtype::i32, {i + 1});
        const Stream s(d, -(i % 3));
        x.use_on(s.state(), {});
        for (const std::byte b : x.to_host()) failed += b != std::byte{0};
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(failed == 0);
  CHECK(live() == 0);
}

TEST_CASE("shim: the same stream costs nothing, another one an event and a wait") {
  const Device d = Device::cuda(0);
  const Stream a = d.stream(), b(d);
  const AnyTensor x = floats(d, 10);
  x.use_on(a.state(), {});
  const long before = calls();
  x.use_on(a.state(), {});
  CHECK(calls() == before);
  const long records = count("cuEventRecord"), waits = count("cuStreamWaitEvent");
  x.use_on(b.state(), {});
  CHECK(count("cuEventRecord") == records + 1);
  CHECK(count("cuStreamWaitEvent") == waits + 1);
  x.use_on(b.state(), {});
  CHECK(count("cuStreamWaitEvent") == waits + 1);
  int foreign = 0;
  const AnyTensor w = AnyTensor::wrap(&foreign, Dtype::i32, {1}, {1}, d);
  w.use_on(a.state(), {});
  w.use_on(b.state(), {});
  CHECK(count("cuStreamWaitEvent") == waits + 1);  // its owner's business
}

TEST_CASE("shim: a launch may be captured, with tensors that other streams have used") {
  const Device d = Device::cuda(0);
  const auto kernel = load_kernel(d, ptx(), "k");
  const Stream s(d), other(d);
  const AnyTensor x = floats(d, 10);
  shim<void(bool)>("shim_set_busy")(true);
  kernel->launch(other.state(), one, nullptr, 0);
  x.use_on(other.state(), {});
  {
    const Capture capture(s);
    x.use_on(s.state(), {});
    kernel->launch(s.state(), one, nullptr, 0);
    const auto loaded_inside = load_kernel(d, ptx(), "k2");
    loaded_inside->launch(s.state(), one, nullptr, 0);
    for (const Memory m : {Memory::device, Memory::managed, Memory::pinned}) {
      const AnyTensor fresh = floats(d, 10, m);
      fresh.use_on(s.state(), {});
    }
  }
  CHECK(other.is_idle());  // waited for on the host, since a graph cannot wait for it
  {
    const Capture capture(d.stream());  // the stream that allocations go by
    const AnyTensor y = floats(d, 10);
    y.use_on(d.stream().state(), {});
    kernel->launch(d.stream().state(), one, nullptr, 0);
  }
  shim<void(bool)>("shim_set_busy")(false);
  CHECK(live() == 5);  // x, and what the graphs may use: freed never
}

TEST_CASE("shim: memory comes back, whatever kind it is and whoever used it") {
  const Device d = Device::cuda(0);
  const long before = live();
  for (const Memory m : {Memory::device, Memory::managed, Memory::pinned}) {
    AnyTensor x = floats(d, 1000, m);
    CHECK(x.memory() == m);
    CHECK(live() == before + 1);
    const Stream a(d), b(d, -5);
    x.use_on(a.state(), {});
    x.use_on(b.state(), {});
    const AnyTensor view = x.slice(0, 10, 20);
    x = AnyTensor();
    CHECK(live() == before + 1);
  }
  CHECK(live() == before);
  CHECK(error_of(
            [&] { AnyTensor::empty(d, Dtype::f64, {std::int64_t{1} << 50}, Memory::device, Place("user.cpp", 6)); }) ==
        "user.cpp:6: error: no memory for 9007199254740992 bytes on Shim GPU (cuda:0)\n  help: 5 of 10 bytes are free");
  CHECK(count("cuMemPoolTrimTo") >= 1);
  floats(d, 10);  // the next one works
}

TEST_CASE("shim: copies in every direction and shape") {
  const Device d = Device::cuda(0), other = Device::cuda(1);
  std::vector<float> values(6 * 5 * 4);
  std::iota(values.begin(), values.end(), 0.0f);
  const AnyTensor h = AnyTensor::from_host(Device::cpu(), Dtype::f32, {6, 5, 4}, std::as_bytes(std::span(values)));
  const AnyTensor x = h.to(d);
  CHECK(x.to_host() == h.to_host());
  const std::vector<std::function<AnyTensor(const AnyTensor&)>> views = {
      [](const AnyTensor& t) { return t.transpose(0, 2); },
      [](const AnyTensor& t) { return t.transpose(1, 2); },
      [](const AnyTensor& t) { return t.permute({1, 2, 0}); },
      [](const AnyTensor& t) { return t.flip(2); },
      [](const AnyTensor& t) { return t.flip(0).slice(1, 1, 4); },
      [](const AnyTensor& t) { return t.slice(1, 0, whole_axis, 2); },
      [](const AnyTensor& t) { return t.select(1, 2); },
      [](const AnyTensor& t) { return t.select(0, 1).broadcast_to({3, 5, 4}); },
      [](const AnyTensor& t) { return t.slice(2, 1, 2); },
      [](const AnyTensor& t) { return t; },
  };
  for (const auto& view : views) {
    const std::vector<std::byte> expected = view(h).to_host();
    CHECK(view(x).to_host() == expected);
    CHECK(view(x).contiguous().to_host() == expected);
    CHECK(view(x).to(other).to_host() == expected);
    AnyTensor wide = AnyTensor::zeros(d, Dtype::f32, {9, 9, 9});
    Dims extents = view(h).extents();
    AnyTensor target = wide;
    for (int i = 0; i < extents.rank(); ++i) target = target.slice(i, 1, extents[i] + 1);
    while (target.rank() > extents.rank()) target = target.select(target.rank() - 1, 4);
    target.copy_from(view(h));
    CHECK(target.to_host() == expected);
    target.copy_from(view(x).to(other));
    CHECK(target.to_host() == expected);
  }
  const AnyTensor pinned = AnyTensor::empty(d, Dtype::f32, {6, 5, 4}, Memory::pinned);
  pinned.copy_from(x);
  CHECK(pinned.to_host() == h.to_host());
  // Too many pieces for the copy engine: through the host, around what lies between.
  const AnyTensor big = AnyTensor::zeros(d, Dtype::i8, {300, 300, 3});
  const AnyTensor ones = AnyTensor::from_host(d, Dtype::i8, {300, 300}, std::vector<std::byte>(90'000, std::byte{1}));
  big.select(2, 1).transpose().copy_from(ones.flip(1));
  const std::vector<std::byte> after = big.to_host();
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (after[i] != static_cast<std::byte>(i % 3 == 1)) FAIL("wrong at " << i);
  }
}

TEST_CASE("shim: overlapping copies on the device are as if the source were copied first") {
  const Device d = Device::cuda(0);
  std::vector<std::int32_t> values = {0, 1, 2, 3, 4, 5, 6, 7};
  const AnyTensor x = AnyTensor::from_host(d, Dtype::i32, {8}, std::as_bytes(std::span(values)));
  x.slice(0, 1, 8).copy_from(x.slice(0, 0, 7));
  x.copy_from(x.flip(0));
  x.to_host(std::as_writable_bytes(std::span(values)));
  CHECK(values == std::vector<std::int32_t>{6, 5, 4, 3, 2, 1, 0, 0});
}

TEST_CASE("shim: streams have priorities, are handed out again, and may be foreign") {
  const Device d = Device::cuda(0);
  void* native = nullptr;
  {
    const Stream s(d, -100);
    CHECK(s.priority() == -5);
    native = s.native();
    CHECK(Stream::wrap(native, d) == s);  // our own handle is that stream
  }
  CHECK(Stream(d, -100).native() == native);
  CHECK(count("cuStreamDestroy_v2") == 0);

  void* foreign = nullptr;
  {
    const Current context;
    shim<int(void**, unsigned, int)>("cuStreamCreateWithPriority")(&foreign, 1, 0);
  }
  const AnyTensor x = floats(d, 10);
  {
    const Stream w = Stream::wrap(foreign, d), again = Stream::wrap(foreign, d);
    CHECK(w == again);
    CHECK(w.native() == foreign);
    x.use_on(w.state(), {});
  }
  shim<int(void*)>("cuStreamDestroy_v2")(foreign);  // its owner ends it; what it did is remembered by an event
  x.use_on(d.stream().state(), {});
  x.to_host();
  void* elsewhere = nullptr;
  {
    const Current context(1);
    shim<int(void**, unsigned, int)>("cuStreamCreateWithPriority")(&elsewhere, 1, 0);
  }
  CHECK(error_of([&] { Stream::wrap(elsewhere, d, Place("user.cpp", 3)); }) ==
        "user.cpp:3: error: the wrapped stream does not belong to the primary context of Shim GPU (cuda:0)\n  help: "
        "pass the device that the stream was made on, in its primary context");
}

TEST_CASE("shim: events order and measure") {
  const Device d = Device::cuda(0);
  const Stream a(d), b(d);
  a.synchronize();  // a stream that is handed out again may still run what another test queued
  const Event start = a.record(), end = a.record();
  b.wait(end);
  CHECK(end.has_passed());
  CHECK(end.elapsed_ms_since(start) == 1.5);
  end.synchronize();
  CHECK_THROWS_AS(end.elapsed_ms_since(Device::cpu().stream().record()), LaunchError);
  Device::cpu().stream().wait(end);
}

TEST_CASE("shim: what a kernel may not have") {
  const Device d = Device::cuda(0);
  const auto refused = [&](const Binary& b) { return error_of([&] { load_kernel(d, b, "k", Place("user.cpp", 5)); }); };
  CHECK(refused(ptx("entry k", 128, 300'000)) ==
        "user.cpp:5: error: kernel 'k' wants 301024 bytes of shared memory a block; Shim GPU (cuda:0) has 232448\n  "
        "help: use smaller tiles or fewer stages");
  CHECK(refused(ptx("entry k", 2048)).find("wants 2048 threads a block") != std::string::npos);
  CHECK(refused(ptx("entry k", 1024))
            .find("does not fit on a multiprocessor of Shim GPU (cuda:0): 1024 threads of 40 "
                  "registers, 1024 bytes of shared memory") != std::string::npos);
  CHECK(
      refused(ptx("BAD k")) ==
      "user.cpp:5: error: kernel 'k' is refused by the driver for Shim GPU (cuda:0) with CUDA_ERROR_INVALID_IMAGE (an "
      "error): ptxas error : line 7; parsing error near 'BAD'");
  CHECK(refused(ptx("entry another")).find("looking for 'k' in kernel 'k': cuModuleGetFunction failed") !=
        std::string::npos);
  Binary object;
  CHECK(refused(object).find("cannot be loaded on Shim GPU (cuda:0)") != std::string::npos);
}

TEST_CASE("shim: large shared memory, clusters and programmatic launch are asked for") {
  const Device d = Device::cuda(0);
  Binary b = ptx("entry k", 256, 100'000);
  b.cluster = 2;
  b.meta = "registers=40 pdl=1";
  const auto kernel = load_kernel(d, b, "k");
  const long set = count("cuFuncSetAttribute");
  CHECK(set >= 1);
  const std::int64_t grid[3] = {5, 1, 1};
  kernel->launch(d.stream().state(), grid, nullptr, 0);
  CHECK(last().x == 10);
  CHECK(last().smem == 100'000);
  CHECK(last().threads == 256);
  CHECK(last().attributes == 2);
}

TEST_CASE("shim: tensor maps are made of each launch's views, and persistent kernels launch what runs at once") {
  const Device d = Device::cuda(0);
  Binary b = ptx("entry k parameters 10", 256, 100'000);
  b.meta = "registers=40 persistent=1 map:1:2:2:128:1:64:0:128";
  const auto kernel = load_kernel(d, b, "k");
  const std::uint64_t slots[] = {7, 4096, 100, 72, 80, 1};
  const long made = count("cuTensorMapEncodeTiled");
  const std::int64_t grid[3] = {1000, 1000, 1};
  kernel->launch(d.stream().state(), grid, slots, 6);
  CHECK(count("cuTensorMapEncodeTiled") == made + 1);
  CHECK(last().x == 2u * static_cast<unsigned>(d.facts().units));
  CHECK(last().y == 1);
  CHECK(last().parameters[0] == 7);
  CHECK(last().parameters[6] == 1000);
  CHECK(last().parameters[9] == 4096 + 72 + 160);
  const std::int64_t few[3] = {3, 1, 1};
  kernel->launch(d.stream().state(), few, slots, 6);
  CHECK(last().x == 3);
  // The same view again takes the map that is known; another one does not, in a thread without a context either.
  CHECK(count("cuTensorMapEncodeTiled") == made + 1);
  std::thread([&] {
    const std::uint64_t other[] = {7, 8192, 100, 72, 80, 1};
    kernel->launch(d.stream().state(), few, other, 6);
  }).join();
  CHECK(count("cuTensorMapEncodeTiled") == made + 2);
  CHECK(last().parameters[9] == 8192 + 72 + 160);
}

TEST_CASE("shim: a fault names the kernels launched since the last wait") {
  const Device d = Device::cuda(0);
  const Stream s(d);
  d.synchronize();  // forgets what earlier cases launched
  const auto add = load_kernel(d, ptx(), "add"), softmax = load_kernel(d, ptx(), "softmax");
  add->launch(s.state(), one, nullptr, 0);
  s.synchronize();
  softmax->launch(s.state(), one, nullptr, 0);
  add->launch(s.state(), one, nullptr, 0);
  add->launch(s.state(), one, nullptr, 0);
  fail("cuStreamSynchronize", 700);
  try {
    s.synchronize(Place("user.cpp", 11));
    FAIL("no error");
  } catch (const LaunchError& e) {
    CHECK(e.kind() == LaunchError::Kind::context_lost);
    CHECK(std::string(e.what()) ==
          "user.cpp:11: error: waiting for Shim GPU (cuda:0): cuStreamSynchronize failed with "
          "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered); launched since the last wait, the "
          "newest first: 'add' (2 times), 'softmax'\n  help: the device cannot be used again in this process; "
          "TILEWEAVE_DEVICE=interpret finds a wrong access in a kernel");
  }
  fail("cuStreamSynchronize", 702);
  try {
    s.synchronize();
    FAIL("no error");
  } catch (const LaunchError& e) {
    CHECK(e.kind() == LaunchError::Kind::timeout);
  }
  fail("", 0);
}

TEST_CASE("shim: every failing call is an error, and the next one works") {
  const Device d = Device::cuda(0);
  const Stream s(d), other(d);
  const auto kernel = load_kernel(d, ptx(), "k");
  const AnyTensor x = floats(d, 64);
  const auto everything = [&] {
    const AnyTensor y = floats(d, 10), z = AnyTensor::zeros(d, Dtype::f32, {4, 4});
    const AnyTensor pinned = floats(d, 8, Memory::pinned), managed = floats(d, 8, Memory::managed);
    x.use_on(s.state(), {});
    x.use_on(other.state(), {});
    kernel->launch(s.state(), one, nullptr, 0);
    z.transpose().contiguous();
    x.copy_from(x.flip(0).to(Device::cpu()));
    x.to_host();
    x.to(Device::cuda(1));
    const Event e = s.record();
    s.wait(e);
    e.synchronize();
    e.has_passed();
    s.is_idle();
    s.synchronize();
    d.synchronize();
    load_kernel(d, ptx(), "k3");
  };
  everything();
  int thrown = 0;
  for (const char* name :
       {"cuCtxPushCurrent_v2", "cuMemAllocFromPoolAsync", "cuMemsetD8Async",      "cuMemHostAlloc",
        "cuMemAllocManaged",   "cuEventCreate",           "cuEventRecord",        "cuStreamWaitEvent",
        "cuLaunchKernel",      "cuMemcpy2DAsync_v2",      "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
        "cuMemcpyAsync",       "cuEventSynchronize",      "cuEventQuery",         "cuStreamQuery",
        "cuStreamSynchronize", "cuCtxSynchronize",        "cuModuleLoadDataEx",   "cuModuleGetFunction"}) {
    CAPTURE(name);
    for (const int result : {999, 700, 3, 4}) {
      fail(name, result);
      const std::string message = error_of(everything);
      fail("", 0);
      CHECK(message.find(name) != std::string::npos);
      thrown += message != "no error";
      everything();
    }
  }
  CHECK(thrown == 80);
}

TEST_CASE("shim: after a fork the child gets an error that says so") {
  const Device d = Device::cuda(0);
  floats(d, 1);
  const pid_t child = fork();
  if (child == 0) {
    fail("cuMemAllocFromPoolAsync", 3);
    const std::string message = error_of([&] { floats(d, 1); });
    _exit(message.find("child after fork()") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("shim_plain: without pools, memory is allocated plainly and freed after its users") {
  const Device d = Device::cuda(0);
  CHECK_FALSE(d.facts().stream_ordered_pool);
  AnyTensor x = floats(d, 10);
  const Stream s(d);
  x.use_on(s.state(), {});
  CHECK(count("cuMemAlloc_v2") == 1);
  const long waits = count("cuStreamSynchronize");
  x = AnyTensor();
  CHECK(count("cuMemFree_v2") == 1);
  CHECK(count("cuStreamSynchronize") > waits);
  CHECK(live() == 0);
}

TEST_CASE("shim_old_driver: a driver that lacks functions is named, and the CPU is used") {
  CHECK(Device::count_cuda() == 0);
  CHECK(Device::best() == Device::cpu());
  CHECK(Device::why_no_cuda() ==
        "the CUDA driver is too old: it has no cuThreadExchangeStreamCaptureMode (needed: a driver of CUDA 10.1 or "
        "newer)");
  CHECK(error_of([] { Device::cuda(0, Place("user.cpp", 1)); }) ==
        "user.cpp:1: error: the CUDA driver is too old: it has no cuThreadExchangeStreamCaptureMode (needed: a driver "
        "of CUDA 10.1 or newer)\n  help: use Device::cpu(), or install a newer NVIDIA driver");
}

TEST_CASE("shim_no_driver: a machine without a driver works on the CPU") {
  CHECK(Device::count_cuda() == 0);
  CHECK(Device::best() == Device::cpu());
  CHECK(Device::why_no_cuda().starts_with("there is no CUDA driver: "));
  CHECK_THROWS_AS(Device::cuda(), LaunchError);
}

TEST_CASE("shim_old_device: a device older than sm_80 is refused by name") {
  CHECK(Device::count_cuda() == 0);
  CHECK(Device::why_no_cuda() == "no CUDA device has compute capability 8.0 or newer");
  CHECK(error_of([] { Device::cuda(0, Place("user.cpp", 1)); }) ==
        "user.cpp:1: error: Shim GPU (cuda:0) has compute capability 7.5; 8.0 is the oldest that is supported\n  help: "
        "use Device::cpu() or a newer device");
}

TEST_CASE("shim_new_device: a newer device takes the plain sm_90 variant") {
  CHECK(Device::cuda(0).target() == "sm_90");
}

TEST_CASE("shim_dead_driver: a driver that does not start is none") {
  CHECK(Device::count_cuda() == 0);
  CHECK(Device::why_no_cuda() == "the CUDA driver does not start: CUDA_ERROR_NO_DEVICE (100)");
}

TEST_SUITE_END();

// Runs the cases "<cases>:*" of this file in a child, with the library of `folder` in front of the driver. What lives
// for ever on purpose (streams, memory of captured graphs) is no leak to report.
void run_against(const std::string& folder, const std::string& cases, const std::string& settings = "") {
  const std::filesystem::path dir = std::filesystem::path(TILEWEAVE_BINARY_DIR) / folder;
  if (!std::filesystem::exists(TILEWEAVE_BINARY_DIR)) {
    MESSAGE("skipped: the build tree is not here (a packed bundle)");
    return;
  }
  REQUIRE_MESSAGE(std::filesystem::exists(dir / "libcuda.so.1"), "tests/gpu/CMakeLists.txt builds ", dir.string());
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  char log[] = "/tmp/tileweave_shim_XXXXXX";
  close(mkstemp(log));
  const std::string command = "env -u TILEWEAVE_DEVICE ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=" + dir.string() +
                              ":$LD_LIBRARY_PATH " + settings + " '" + self + "' --no-skip '--test-case=" + cases +
                              ":*' > " + log + " 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  unlink(log);
  INFO(text);
  CHECK(status == 0);
  CHECK(text.find("test cases: 0 ") == std::string::npos);
}

TEST_CASE("the CUDA runtime works against the stand-in driver") { run_against("shim", "shim"); }
TEST_CASE("the CUDA runtime works without pools") { run_against("shim", "shim_plain", "SHIM_NO_POOLS=1"); }
TEST_CASE("an old driver, no driver, a dead driver") {
  run_against("shim_old", "shim_old_driver");
  run_against("shim_none", "shim_no_driver");
  run_against("shim", "shim_dead_driver", "SHIM_FAIL=cuInit:100");
}
TEST_CASE("old and new devices") {
  run_against("shim", "shim_old_device", "SHIM_COMPUTE=75");
  run_against("shim", "shim_new_device", "SHIM_COMPUTE=120");
}

}  // namespace
}  // namespace tileweave::runtime
