// What a launch adds in the steady state, by number of arguments: time, heap allocations, and how it scales over
// threads. On the CPU device a grid of one program of an empty kernel; on CUDA (or a stand-in for libcuda) beside the
// raw driver call with as many parameter bytes, in the same run, so that the difference is what is added.
#include <dlfcn.h>
#include <tileweave/tileweave.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "timing.h"

namespace tw = tileweave;

namespace {
std::atomic<long long> allocations{0};
}

void* operator new(std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(n)) return p;
  std::abort();  // a benchmark that is out of memory has nothing to say
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {
using In = tw::View<const float, 1>;
using Num = tw::Scalar<float>;
constexpr int batch = 250, rounds = 201;

const auto with_0 = tw::kernel("with_0", [] {});
const auto with_5 = tw::kernel("with_5", [](In, In, Num, Num, Num) {});
const auto with_19 =
    tw::kernel("with_19", [](In, In, In, In, In, In, In, In, In, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num) {});
const auto with_58 =
    tw::kernel("with_58", [](In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In, In,
                             In, In, In, In, In, In, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num,
                             Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num, Num) {});

// The same kernel with and without eight requirements, and with eight more.
template <int clauses>
const auto with_requirements = tw::kernel(
    "with_requirements", []([[maybe_unused]] In a, [[maybe_unused]] In b, Num, [[maybe_unused]] tw::Scalar<int> n) {
      if constexpr (clauses >= 8) {
        tw::requires_(a.extent(0) % 16 == 0);
        tw::requires_(b.extent(0) % 4 == 0);
        tw::requires_(tw::same_extents(a, b));
        tw::requires_(tw::is_contiguous(a));
        tw::requires_(tw::is_contiguous(b));
        tw::requires_(tw::aligned(a, 16));
        tw::requires_(n > 0);
        tw::requires_(n <= a.extent(0));
      }
      if constexpr (clauses >= 16) {
        tw::requires_(b.extent(0) % 16 == 0);
        tw::requires_(a.extent(0) % 4 == 0);
        tw::requires_(a.extent(0) > 3);
        tw::requires_(a.stride(0) < 100);
        tw::requires_(b.stride(0) < 100);
        tw::requires_(tw::aligned(b, 16));
        tw::requires_(n < 1000);
        tw::requires_(n != b.extent(0) + 7);
      }
    });

struct Cost {
  double ns;
  long long allocations;
};
// Medians over rounds of batches called in turn; a batch is smaller than the driver's queue, which would make a launch
// wait for the device. Allocations are those of the launches alone.
std::vector<Cost> race(const std::vector<std::function<void()>>& launches, const std::function<void()>& drain) {
  std::vector<std::vector<double>> ns(launches.size());
  std::vector<Cost> out(launches.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const long long before = allocations;
      const auto start = std::chrono::steady_clock::now();
      for (int k = 0; k < batch; ++k) launches[i]();
      const double each =
          std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / batch;
      const long long allocated = allocations - before;
      drain();
      if (round == 0) continue;  // it compiles
      ns[i].push_back(each);
      out[i].allocations += allocated;
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i].ns = tw::bench::median(ns[i]);
  return out;
}

// The raw call: cuLaunchKernel on an empty kernel, with its parameters in one buffer as ours.
class Raw {
 public:
  explicit Raw(std::size_t slots) : bytes_(8 * slots) {
    if (slots == 0) return;
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) return;
    int device = 0;
    void* context = nullptr;
    void* module = nullptr;
    find<int(unsigned)>("cuInit")(0);
    find<int(int*, int)>("cuDeviceGet")(&device, 0);
    find<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device);
    find<int(void*)>("cuCtxPushCurrent_v2")(context);
    std::string ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry raw(";
    for (std::size_t i = 0; i < slots; ++i) ptx += (i > 0 ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
    ptx += ") { ret; }\n";
    find<int(void**, const void*, unsigned, int*, void**)>("cuModuleLoadDataEx")(&module, ptx.c_str(), 0, nullptr,
                                                                                 nullptr);
    find<int(void**, void*, const char*)>("cuModuleGetFunction")(&function_, module, "raw");
    launch_ = find<Launch>("cuLaunchKernel");
  }
  bool is_there() const { return function_ != nullptr; }
  void operator()(void* stream) {
    void* extra[] = {reinterpret_cast<void*>(1), parameters_, reinterpret_cast<void*>(2), &bytes_, nullptr};
    if (launch_(function_, 1, 1, 1, 128, 1, 1, 0, stream, nullptr, extra) != 0) std::abort();
  }

 private:
  using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                     void**);
  template <class F>
  F* find(const char* name) {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }
  std::size_t bytes_;
  void* library_ = nullptr;
  void* function_ = nullptr;
  Launch* launch_ = nullptr;
  std::uint64_t parameters_[512] = {};
};

// Threads that launch for half a second, each on a stream and a tensor of its own: launches in all, and the processor
// time of one, which other programs on the machine disturb less than the wall's.
struct Rate {
  double launches, cpu_ns;
};
double thread_cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}
Rate rate_of(const tw::Device& device, int threads) {
  std::atomic<bool> stop{false};
  std::atomic<long long> done{0}, cpu_ns{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      const tw::Stream stream(device);
      const auto x = tw::Tensor<float>::zeros(device, {16});
      with_5.launch(stream, {1}, x, x, 1.f, 2.f, 3.f);
      long long mine = 0;
      const double start = thread_cpu_ns();
      for (; !stop.load(std::memory_order_relaxed); mine += 100) {
        for (int i = 0; i < 100; ++i) with_5.launch(stream, {1}, x, x, 1.f, 2.f, 3.f);
      }
      cpu_ns += static_cast<long long>(thread_cpu_ns() - start);
      done += mine;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  stop = true;
  for (auto& t : all) t.join();
  device.synchronize();
  return {static_cast<double>(done), static_cast<double>(cpu_ns) / static_cast<double>(done)};
}
void print_scaling(const tw::Device& device) {
  const Rate one = rate_of(device, 1);
  std::printf("\n| threads, on %u cores | launches, of one thread's | processor time a launch, ns |\n|---|---|---|\n",
              std::thread::hardware_concurrency());
  for (const int threads : {1, 2, 4, 8}) {
    const Rate r = threads == 1 ? one : rate_of(device, threads);
    std::printf("| %d | %.2f | %.1f |\n", threads, r.launches / one.launches, r.cpu_ns);
  }
}
}  // namespace

int main() {
  const tw::Device device = tw::Device::best();
  const tw::Stream stream = device.stream();
  const bool on_cuda = device.kind() == tw::DeviceKind::cuda;
  auto x = tw::Tensor<float>::zeros(device, {16});
  device.synchronize();
  std::printf("launch on %s, one program, empty kernel\n\n", device.name().c_str());
  std::printf("| arguments | ns a launch | the raw call, ns | added, ns | allocations |\n|---|---|---|---|---|\n");
  const auto drain = [&] { device.synchronize(); };
  const auto measure = [&](int arguments, std::size_t slots, const std::function<void()>& launch) {
    Raw raw(on_cuda ? slots : 0);  // first: a thread whose context is another one or none pays for two more calls
    std::vector<std::function<void()>> launches{launch};
    if (on_cuda && raw.is_there()) launches.emplace_back([&] { raw(stream.native()); });
    const std::vector<Cost> costs = race(launches, drain);
    const Cost& ours = costs.front();
    if (costs.size() > 1) {
      const Cost& bare = costs.back();
      std::printf("| %d | %.1f | %.1f | %.1f | %lld |\n", arguments, ours.ns, bare.ns, ours.ns - bare.ns,
                  ours.allocations);
    } else {
      std::printf("| %d | %.1f | | | %lld |\n", arguments, ours.ns, ours.allocations);
    }
  };
  const auto& s = stream;
  const float f = 1;
  measure(0, 3, [&] { with_0.launch(s, {1}); });
  measure(5, 12, [&] { with_5.launch(s, {1}, x, x, f, f, f); });
  measure(19, 40, [&] { with_19.launch(s, {1}, x, x, x, x, x, x, x, x, x, f, f, f, f, f, f, f, f, f, f); });
  measure(58, 119, [&] {
    with_58.launch(s, {1}, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, f, f,
                   f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f);
  });
  std::printf("\nrequirements checked at each launch\n\n| clauses | ns a launch | allocations |\n|---|---|---|\n");
  const auto requirements = [&](int clauses, const std::function<void()>& launch) {
    const Cost c = race({launch}, drain).front();
    std::printf("| %d | %.1f | %lld |\n", clauses, c.ns, c.allocations);
  };
  requirements(0, [&] { with_requirements<0>.launch(s, {1}, x, x, f, 16); });
  requirements(8, [&] { with_requirements<8>.launch(s, {1}, x, x, f, 16); });
  requirements(16, [&] { with_requirements<16>.launch(s, {1}, x, x, f, 16); });
  print_scaling(device);
}
