// What goes wrong in a process with a GPU: faults, threads and streams, foreign contexts, forks, loading and unloading,
// sizes past 2^31. Kernels of the language through the whole library; skips, with the reason, where there is no GPU.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <tileweave/tileweave.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tw = tileweave;

namespace {

using Clock = std::chrono::steady_clock;

bool has_gpu() {
  if (tw::Device::count_cuda() > 0) return true;
  MESSAGE("skipped: " << tw::Device::why_no_cuda());
  return false;
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

const auto scale = tw::kernel(
    "scale", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Scalar<float> by, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      tw::store(y, {first}, tw::load(x, {first}, {block}) * by);
    });

const auto wild_store = tw::kernel(
    "wild_store", [](tw::View<float, 1> y) { tw::store(y, {tw::program_id(0) * 32}, tw::full<float>(1.0f, 32)); });

// The functions of libcuda that a program with a context of its own calls.
struct Driver {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  template <class... A>
  int call(const char* name, A... a) const {
    return reinterpret_cast<int (*)(A...)>(::dlsym(library, name))(a...);
  }
  void* current() const {
    void* context = nullptr;
    call("cuCtxGetCurrent", &context);
    return context;
  }
  // Of device 0, asked in its primary context, where the library works.
  std::size_t free_bytes() const {
    void *context = nullptr, *popped = nullptr;
    std::size_t free = 0, total = 0;
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxPushCurrent_v2", context);
    call("cuMemGetInfo_v2", &free, &total);
    call("cuCtxPopCurrent_v2", &popped);
    call("cuDevicePrimaryCtxRelease_v2", 0);
    return free;
  }
};

bool is_scaled(const tw::Tensor<float>& x, const tw::Tensor<float>& y, float by) {
  const auto hx = x.to_host(), hy = y.to_host();
  for (std::size_t i = 0; i < hx.size(); ++i) {
    if (hy[i] != hx[i] * by) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("fault_child" * doctest::skip()) {
  const tw::Device device = tw::Device::cuda(0);
  auto x = tw::random_normal<float>(device, {1000}, 1), y = tw::Tensor<float>::empty(device, {1000});
  scale.launch(device.stream(), {4}, x, y, 2.0f, 256);
  device.synchronize();
  const auto start = Clock::now();
  try {
    wild_store.launch(device.stream(), {1}, tw::wrap(reinterpret_cast<float*>(0x1000), {32}, {1}, device));
    device.synchronize();
    FAIL("no error");
  } catch (const tw::Error& e) {
    const std::string text = e.what();
    INFO(text);
    CHECK(ms_since(start) < 1000);
    CHECK(text.find("'wild_store'") != std::string::npos);
    CHECK(text.find("'scale'") == std::string::npos);
  }
  CHECK_THROWS_AS(scale.launch(device.stream(), {4}, x, y, 2.0f, 256), tw::Error);
}

TEST_CASE("gpu: a faulting kernel is named within a second, and the process ends in peace") {
  if (!has_gpu()) return;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string log = std::filesystem::temp_directory_path() / ("fault_" + std::to_string(::getpid()));
  const int status = std::system(("'" + self + "' --no-skip --test-case=fault_child > " + log + " 2>&1").c_str());
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove(log);
  INFO(text);
  CHECK(status == 0);
}

TEST_CASE("gpu: 16 threads on 8 streams, each kernel compiled once") {
  if (!has_gpu()) return;
  const tw::Device device = tw::Device::cuda(0);
  std::vector<tw::Stream> streams;
  for (int i = 0; i < 8; ++i) streams.emplace_back(device, -(i % 2));
  const auto before = tw::cache_counters().compiled;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const tw::Stream& s = streams[static_cast<std::size_t>(t + i) % 8];
        const auto by = static_cast<float>(t * 200 + i);
        auto x = tw::random_normal<float>(device, {1000}, static_cast<std::uint64_t>(i));
        auto y = tw::Tensor<float>::empty(device, {1000}), z = tw::Tensor<float>::empty(device, {1000});
        scale.launch(s, {4}, x, y, by, 256);
        scale.launch(streams[static_cast<std::size_t>(t + i + 3) % 8], {4}, y, z, 0.5f, 256);  // behind the first
        if (!is_scaled(x, y, by) || !is_scaled(y, z, 0.5f)) ++wrong;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(tw::cache_counters().compiled - before <= 1);
}

TEST_CASE("gpu: a context of the program's own is left as found") {
  if (!has_gpu()) return;
  const tw::Device device = tw::Device::cuda(0);
  const Driver driver;
  std::vector<void*> contexts(3);
  for (void*& c : contexts) REQUIRE(driver.call("cuCtxCreate_v2", &c, 0U, 0) == 0);
  auto x = tw::random_normal<float>(device, {1000}, 1), y = tw::Tensor<float>::empty(device, {1000});
  for (int i = 0; i < 300; ++i) {
    void* const mine = contexts[static_cast<std::size_t>(i) % 3];
    driver.call("cuCtxSetCurrent", mine);
    scale.launch(device.stream(), {4}, x, y, static_cast<float>(i), 256);
    CHECK(driver.current() == mine);
    const bool ok = is_scaled(x, y, static_cast<float>(i));
    CHECK(ok);
    CHECK(driver.current() == mine);
    auto temporary = tw::Tensor<float>::zeros(device, {1 << 16});
    CHECK(driver.current() == mine);
  }
  for (void* c : contexts) driver.call("cuCtxDestroy_v2", c);
}

TEST_CASE("gpu: kernels that come and go leave the device's memory as it was") {
  if (!has_gpu()) return;
  const tw::Device device = tw::Device::cuda(0);
  auto x = tw::random_normal<float>(device, {8}, 1), y = tw::Tensor<float>::empty(device, {8});
  device.synchronize();
  const Driver driver;
  const int count = 10'000, kinds = 50;  // what is compiled once comes from the cache's memory or disk later
  std::size_t before = 0;
  for (int i = 0; i < count; ++i) {
    const auto kernel =
        tw::kernel("passing", [](tw::View<const float, 1> in, tw::View<float, 1> out, tw::Const<int> addend) {
          tw::store(out, {0}, tw::load(in, {0}, {8}) + tw::full<float>(addend, 8));
        });
    kernel.launch(device.stream(), {1}, x, y, i % kinds);
    if (i == 200) {
      device.synchronize();
      before = driver.free_bytes();
    }
  }
  device.synchronize();
  const std::size_t after = driver.free_bytes();
  MESSAGE("free bytes before " << before << ", after " << after);
  CHECK(after + (2U << 20) >= before);
}

TEST_CASE("gpu: a child forked from a process with a GPU uses the CPU, or is told at once that the GPU is not its") {
  if (!has_gpu()) return;
  const tw::Device device = tw::Device::cuda(0);
  auto x = tw::random_normal<float>(device, {1000}, 1), y = tw::Tensor<float>::empty(device, {1000});
  scale.launch(device.stream(), {4}, x, y, 3.0f, 256);
  device.synchronize();
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      int status = 0;
      const auto cpu = tw::Device::cpu();
      auto a = tw::random_normal<float>(cpu, {1000}, 1), b = tw::Tensor<float>::empty(cpu, {1000});
      scale.launch(cpu.stream(), {4}, a, b, 3.0f, 256);
      if (!is_scaled(a, b, 3.0f)) status |= 1;
      const auto start = Clock::now();
      try {
        scale.launch(device.stream(), {4}, x, y, 3.0f, 256);
        device.synchronize();
        status |= 2;
      } catch (const tw::Error& e) {
        if (std::string(e.what()).find("fork") == std::string::npos) status |= 4;
      }
      if (ms_since(start) > 100) status |= 8;
      ::_exit(status);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  scale.launch(device.stream(), {4}, x, y, 5.0f, 256);
  const bool ok = is_scaled(x, y, 5.0f);
  CHECK(ok);
}

TEST_CASE("gpu: tensors of more than 2^31 elements: flat, rows and a transposed view") {
  if (!has_gpu()) return;
  const tw::Device device = tw::Device::cuda(0);
  const tw::index_t columns = 4096, rows = (tw::index_t{1} << 19) + 3, n = rows * columns;  // 2^31 + 12288
  auto x = tw::Tensor<tw::f16>::zeros(device, {rows, columns});
  const tw::index_t at = rows - 2;
  auto line = tw::random_normal<tw::f16>(device, {columns}, 7);
  x.slice(0, at, at + 1).copy_from(line.reshape({1, columns}));
  const auto host_line = line.to_host();
  const auto last = [&](const tw::Tensor<tw::f16>& t) { return t.slice(0, at, at + 1).to_host(); };

  const auto doubled = last(tw::Tensor<tw::f16>(x + x));
  for (std::size_t i = 0; i < host_line.size(); ++i)
    CHECK(float(doubled[i]) == float(host_line[i]) + float(host_line[i]));

  const auto soft = last(tw::ops::softmax(x, 1));
  double total = 0;
  for (const auto v : host_line) total += std::exp(double(float(v)));
  for (std::size_t i = 0; i < soft.size(); ++i) {
    CHECK(float(soft[i]) == doctest::Approx(std::exp(double(float(host_line[i]))) / total).epsilon(2e-3));
  }
  auto turned = tw::Tensor<tw::f16>::empty(device, {columns, rows});
  turned.assign(x.transpose() + tw::f16(0.0f));
  const auto column = turned.slice(1, at, at + 1).to_host();
  for (std::size_t i = 0; i < host_line.size(); ++i) CHECK(float(column[i]) == float(host_line[i]));
  CHECK(n > (tw::index_t{1} << 31));
}
