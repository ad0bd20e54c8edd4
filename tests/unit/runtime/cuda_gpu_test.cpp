// The CUDA runtime on a real GPU: launches, folding, order, capture, foreign contexts, memory, faults.
// Tests jit/runtime/cuda_*; skips, with the reason, where there is no GPU. cuda_shim_test.cpp needs none.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/launch.h"
#include "tileweave/jit/runtime/random.h"
#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::runtime {
namespace {

bool has_gpu() {
  if (Device::count_cuda() > 0) return true;
  MESSAGE("skipped: " << Device::why_no_cuda());
  return false;
}

// Parameters: a view of rank 1 (pointer, extent, stride), a number, the grid. Program p of the folded grid adds the
// number to element p while that is inside; one thread a block.
constexpr const char* add_source = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry add_number(.param .u64 p, .param .u64 n, .param .u64 s, .param .u64 v, .param .u64 g0, .param .u64 g1, .param .u64 g2)
{
  .reg .pred %q; .reg .b32 %r<4>; .reg .b64 %d<12>;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x;
  cvt.u64.u32 %d0, %r0; mul.wide.u32 %d1, %r1, %r2; add.u64 %d0, %d0, %d1;
  ld.param.u64 %d2, [p]; ld.param.u64 %d3, [n]; ld.param.u64 %d4, [s]; ld.param.u64 %d5, [v];
  setp.ge.s64 %q, %d0, %d3; @%q bra DONE;
  mul.lo.s64 %d6, %d0, %d4; shl.b64 %d6, %d6, 3; add.u64 %d7, %d2, %d6;
  ld.global.u64 %d8, [%d7]; add.u64 %d8, %d8, %d5; st.global.u64 [%d7], %d8;
DONE:
  ret;
}
)";

std::shared_ptr<const LoadedKernel> adder(const Device& d, const std::string& name = "add_number",
                                          const std::string& meta = "") {
  Binary b;
  b.kind = Binary::Kind::ptx;
  b.entry = "add_number";
  b.target = d.target();
  b.meta = meta;
  const std::string source = add_source;
  b.code.assign(reinterpret_cast<const std::byte*>(source.data()),
                reinterpret_cast<const std::byte*>(source.data() + source.size()));
  return load_kernel(d, b, name);
}

void add(const LoadedKernel& kernel, const Stream& stream, const AnyTensor& t, std::int64_t value) {
  std::uint64_t slots[4];
  *t.write_slots(slots) = scalar_slot(value);
  const std::int64_t grid[3] = {t.extent(0), 1, 1};
  t.use_on(stream.state(), {});
  kernel.launch(stream.state(), grid, slots, 4);
}

std::vector<std::int64_t> values_of(const AnyTensor& t) {
  std::vector<std::int64_t> v(static_cast<std::size_t>(t.size()));
  t.to_host(std::as_writable_bytes(std::span(v)));
  return v;
}
bool all_are(const AnyTensor& t, std::int64_t value) {
  for (const std::int64_t v : values_of(t)) {
    if (v != value) return false;
  }
  return true;
}

template <class F>
F* driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<F*>(dlsym(library, name));
}
void* current_context() {
  void* c = nullptr;
  driver<int(void**)>("cuCtxGetCurrent")(&c);
  return c;
}

TEST_CASE("gpu: kernels run, plainly, with programmatic launch, and over strided views") {
  if (!has_gpu()) return;
  const Device d = Device::cuda(0);
  for (const char* meta : {"", "pdl=1"}) {
    const auto kernel = adder(d, "add_number", meta);
    const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {100'003});
    for (int i = 1; i <= 10; ++i) add(*kernel, d.stream(), t, i);
    CHECK(all_are(t, 55));
    add(*kernel, d.stream(), t.slice(0, 0, whole_axis, 3), 1);
    add(*kernel, d.stream(), t.flip(0), 1);
    const std::vector<std::int64_t> v = values_of(t);
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (v[i] != 56 + (i % 3 == 0)) FAIL("wrong at " << i);
    }
  }
}

TEST_CASE("gpu: a grid over 2^31 programs is folded and runs") {
  if (!has_gpu()) return;
  const Device d = Device::cuda(0);
  const auto kernel = adder(d);
  const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {1000});
  std::uint64_t slots[4];
  *t.write_slots(slots) = scalar_slot(std::int64_t{3});
  const std::int64_t grid[3] = {65536, 32768, 1};
  t.use_on(d.stream().state(), {});
  kernel->launch(d.stream().state(), grid, slots, 4);
  CHECK(all_are(t, 3));
}

TEST_CASE("gpu: work on two streams is in order without the user's doing") {
  if (!has_gpu()) return;
  const Device d = Device::cuda(0);
  const auto kernel = adder(d);
  const Stream a(d), b(d, -1);
  for (int round = 0; round < 20; ++round) {
    const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {200'000});
    for (int i = 0; i < 10; ++i) add(*kernel, i % 2 != 0 ? a : b, t, 1);
    CHECK(all_are(t, 10));
  }
  const Event start = a.record();
  const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {1'000'000});
  add(*kernel, a, t, 1);
  const Event end = a.record();
  CHECK(end.elapsed_ms_since(start) > 0);
  CHECK(end.elapsed_ms_since(start) < 1000);
}

TEST_CASE("gpu: threads without a context, with a foreign one, and back") {
  if (!has_gpu()) return;
  const Device d = Device::cuda(0);
  const auto kernel = adder(d);
  const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {64});
  std::thread([&] {
    CHECK(current_context() == nullptr);
    for (int i = 0; i < 600; ++i) add(*kernel, d.stream(), t, 1);
    CHECK(current_context() == nullptr);
    void* foreign = nullptr;
    auto* create = driver<int(void**, unsigned, int)>("cuCtxCreate_v2");
    REQUIRE((create != nullptr));
    REQUIRE(create(&foreign, 0, 0) == 0);
    for (int i = 0; i < 600; ++i) add(*kernel, d.stream(), t, 1);
    CHECK(current_context() == foreign);
    CHECK(all_are(t, 1200));
    CHECK(current_context() == foreign);
    driver<int(void*)>("cuCtxDestroy_v2")(foreign);
  }).join();
}

TEST_CASE("gpu: a captured graph replays the launches") {
  if (!has_gpu()) return;
  const Device d = Device::cuda(0);
  const auto kernel = adder(d);
  const Stream s(d);
  const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {1000});  // on the default stream: the graph has to come after
  void *graph = nullptr, *executable = nullptr, *context = nullptr;
  REQUIRE(driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0) == 0);
  REQUIRE(driver<int(void*)>("cuCtxPushCurrent_v2")(context) == 0);
  REQUIRE(driver<int(void*, int)>("cuStreamBeginCapture_v2")(s.native(), 0) == 0);
  for (int i = 0; i < 5; ++i) add(*kernel, s, t, 1);
  const AnyTensor unrelated = AnyTensor::zeros(d, Dtype::i64, {1000});
  const auto loaded_meanwhile = adder(d, "late");
  add(*loaded_meanwhile, s, t, 10);
  REQUIRE(driver<int(void*, void**)>("cuStreamEndCapture")(s.native(), &graph) == 0);
  REQUIRE(driver<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable, graph, 0) == 0);
  for (int i = 0; i < 3; ++i) CHECK(driver<int(void*, void*)>("cuGraphLaunch")(executable, s.native()) == 0);
  CHECK(all_are(t, 45));
  CHECK(all_are(unrelated, 0));
  CHECK(current_context() == context);
  driver<int(void**)>("cuCtxPopCurrent_v2")(&context);
}

TEST_CASE("gpu: copies of views, in every direction") {
  if (!has_gpu()) return;
  const Device d = Device::cuda(0);
  const AnyTensor h = random_normal(Device::cpu(), Dtype::f32, {33, 20, 17}, 1), x = h.to(d);
  CHECK(x.to_host() == h.to_host());
  CHECK(random_normal(d, Dtype::f32, {33, 20, 17}, 1).to_host() == h.to_host());
  const auto check = [&](const AnyTensor& on_host, const AnyTensor& on_device) {
    CHECK(on_device.to_host() == on_host.to_host());
    CHECK(on_device.contiguous().to_host() == on_host.to_host());
    const AnyTensor wide = AnyTensor::zeros(d, Dtype::f32, {40, 40, 40});
    AnyTensor target = wide;
    for (int i = 0; i < 3; ++i) target = target.slice(i, 2, 2 + on_host.extent(i));
    target.copy_from(on_host);
    CHECK(target.to_host() == on_host.to_host());
    target.flip(1).copy_from(on_device);
    CHECK(target.flip(1).to_host() == on_host.to_host());
  };
  check(h, x);
  check(h.transpose(0, 2), x.transpose(0, 2));
  check(h.flip(2), x.flip(2));
  check(h.slice(1, 1, 18, 3).flip(0), x.slice(1, 1, 18, 3).flip(0));
  for (const Memory m : {Memory::managed, Memory::pinned}) {
    const AnyTensor other = AnyTensor::empty(d, Dtype::f32, {33, 20, 17}, m);
    other.copy_from(x.flip(0));
    CHECK(other.to_host() == h.flip(0).to_host());
    CHECK(std::memcmp(other.data(), h.flip(0).to_host().data(), 1000) == 0);  // the host reads it in place
  }
}

TEST_CASE("gpu: temporary tensors come back to the pool") {
  if (!has_gpu()) return;
  const Device d = Device::cuda(0);
  const auto kernel = adder(d);
  const auto free_bytes = [&] {
    std::size_t free = 0, total = 0;
    std::thread([&] {
      void* context = nullptr;
      driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0);
      driver<int(void*)>("cuCtxSetCurrent")(context);
      driver<int(std::size_t*, std::size_t*)>("cuMemGetInfo_v2")(&free, &total);
    }).join();
    return static_cast<std::int64_t>(free);
  };
  d.synchronize();
  d.trim_pool();
  const std::int64_t before = free_bytes();
  const Stream a(d), b(d);
  for (int i = 0; i < 2000; ++i) {
    const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {1 << 20});
    add(*kernel, i % 2 != 0 ? a : b, t.slice(0, 0, 100), 1);
  }
  d.synchronize();
  CHECK(before - free_bytes() < (std::int64_t{1} << 31));  // 2000 times 8 MiB went through
  d.trim_pool();
  CHECK(before - free_bytes() < (std::int64_t{64} << 20));
  CHECK_THROWS_AS(AnyTensor::empty(d, Dtype::i64, {std::int64_t{1} << 37}), LaunchError);
  CHECK(all_are(AnyTensor::zeros(d, Dtype::i64, {10}), 0));
}

TEST_CASE("gpu_fault_child" * doctest::skip()) {
  const Device d = Device::cuda(0);
  const auto fine = adder(d, "fine"), faulty = adder(d, "faulty");
  const AnyTensor t = AnyTensor::zeros(d, Dtype::i64, {10});
  add(*fine, d.stream(), t, 1);
  d.stream().synchronize();
  const AnyTensor wild = AnyTensor::wrap(reinterpret_cast<void*>(0x10), Dtype::i64, {10}, {1}, d);
  add(*faulty, d.stream(), wild, 1);
  try {
    d.stream().synchronize(Place("user.cpp", 77));
    FAIL("no error");
  } catch (const LaunchError& e) {
    CHECK(e.kind() == LaunchError::Kind::context_lost);
    const std::string text = e.what();
    INFO(text);
    CHECK(text.starts_with("user.cpp:77: error: waiting for "));
    CHECK(text.find("'faulty'") != std::string::npos);
    CHECK(text.find("'fine'") == std::string::npos);
  }
  CHECK_THROWS_AS(t.to_host(), LaunchError);
  CHECK_THROWS_AS(AnyTensor::zeros(d, Dtype::i64, {10}), LaunchError);
}

TEST_CASE("gpu: a fault is an error that names the kernel, and the process ends in peace") {
  if (!has_gpu()) return;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string log = "/tmp/tileweave_fault_" + std::to_string(getpid());
  const int status = std::system(("'" + self + "' --no-skip --test-case=gpu_fault_child > " + log + " 2>&1").c_str());
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  unlink(log.c_str());
  INFO(text);
  CHECK(status == 0);
}

}  // namespace
}  // namespace tileweave::runtime
