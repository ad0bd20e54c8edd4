// Kernels that no program should have, and many of them. Every mode checks its results; exit status 0 if all was right.
//   cached N      N kernels of different constants, all kept loaded; prints how many were compiled
//   small-stack   kernels compiled, loaded and run on a thread with 512 KiB of stack
//   deep          bodies nested 100,000 deep, and of 150,000 operations: an error within a second
//   throws        a lambda that throws at its k-th operation, for every k; then the same kernel again, which runs
//   good          that kernel alone
//   warms         a kernel warmed up with its arguments, without a launch
#include <pthread.h>
#include <tileweave/tileweave.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tw = tileweave;

namespace {

bool right = true;
void check(bool ok, const std::string& what) {
  if (!ok) std::fprintf(stderr, "wrong: %s\n", what.c_str());
  right = right && ok;
}

auto add_constant() {
  return tw::kernel("add_constant", [](tw::View<const float, 1> in, tw::View<float, 1> out, tw::Const<int> addend) {
    tw::store(out, {0}, tw::load(in, {0}, {8}) + tw::full<float>(addend, 8));
  });
}

void run_cached(const tw::Device& device, int count) {
  std::vector<decltype(add_constant())> kernels;
  const auto x = tw::random_normal<float>(device, {8}, 1);
  const auto y = tw::Tensor<float>::empty(device, {8});
  const auto hx = x.to_host();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < count; ++i) {
      if (round == 0) kernels.push_back(add_constant());
      kernels[static_cast<std::size_t>(i)].launch(device.stream(), {1}, x, y, i);
      check(y.to_host()[7] == hx[7] + static_cast<float>(i), "add_constant");
    }
  }
  const tw::CacheCounters c = tw::cache_counters();
  std::printf("compiled=%llu\ndisk=%llu\n", static_cast<unsigned long long>(c.compiled),
              static_cast<unsigned long long>(c.disk));
}

void run_usual(const tw::Device& device) {
  const auto x = tw::random_normal<float>(device, {20, 300}, 1), w = tw::random_normal<float>(device, {300}, 2),
             b = tw::random_normal<float>(device, {300}, 3);
  const auto y = tw::ops::layer_norm(x, w, b, 1e-5, tw::gelu).to_host();
  for (const float v : y) check(std::isfinite(v), "layer_norm");
  const tw::Tensor<float> z = tw::exp(-x * x) / (1.0f + tw::abs(x));
  const auto hx = x.to_host(), hz = z.to_host();
  for (std::size_t i = 0; i < hx.size(); ++i) {
    const double expected = std::exp(-static_cast<double>(hx[i]) * hx[i]) / (1 + std::abs(static_cast<double>(hx[i])));
    check(std::abs(hz[i] - expected) <= 1e-5 * expected, "a tensor expression");
  }
}

void run_on_small_stack(const tw::Device& device) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  pthread_t thread;
  const auto body = [](void* d) -> void* {
    run_usual(*static_cast<const tw::Device*>(d));
    return nullptr;
  };
  check(pthread_create(&thread, &attributes, body, const_cast<tw::Device*>(&device)) == 0, "a thread");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

void run_warms(const tw::Device& device) {
  const auto kernel = add_constant();
  const auto x = tw::random_normal<float>(device, {8}, 1);
  const auto y = tw::Tensor<float>::zeros(device, {8});
  tw::Warmup warmup = kernel.warmup_async(device, x, y, 5);
  warmup.wait();
  check(warmup.total() == 1 && warmup.is_done() && warmup.failures().empty(), "one variant is warm");
  check(tw::cache_counters().compiled == 1 && kernel.variant_count() == 0, "it was compiled and not launched");
  check(y.to_host()[7] == 0, "nothing ran");
  kernel.launch(device.stream(), {1}, x, y, 5);
  check(y.to_host()[7] == x.to_host()[7] + 5, "the warm kernel");
  check(tw::cache_counters().compiled == 1, "its launch compiles nothing");
  kernel.warmup_async(device, x, y, 6).wait();
  const tw::Warmup generic = add_constant().warmup_async(device, x.flip(0), y, 5);
  auto handle = generic;
  handle.wait();
  check(tw::cache_counters().compiled == 3, "another constant and another layout are other variants");
  try {
    kernel.warmup_async(device, tw::Tensor<float>(), y, 5);
    check(false, "an empty tensor is refused");
  } catch (const tw::LaunchError& e) {
    check(std::string(e.what()).find("argument 1") != std::string::npos, e.what());
  }
}

void nest(const tw::Tile<float, 1>& v, int depth) {
  if (depth > 0) tw::if_(tw::program_id(0) > 3, [&] { nest(v + 1.0f, depth - 1); });
}
template <bool nested>
const auto endless = tw::kernel("endless", [](tw::View<const float, 1> x, tw::View<float, 1> y) {
  tw::Tile<float, 1> v = tw::load(x, {0}, {16});
  if constexpr (nested) {
    nest(v, 100'000);
    tw::store(y, {0}, v);
  } else {
    tw::Var sum = v;
    for (int i = 0; i < 150'000; ++i) sum = sum * v + 1.0f;
    tw::store(y, {0}, sum);
  }
});

template <class K>
void refuses_quickly(const tw::Device& device, const K& kernel, const char* why) {
  const auto x = tw::Tensor<float>::zeros(device, {16});
  const auto start = std::chrono::steady_clock::now();
  try {
    kernel.launch(device.stream(), {1}, x, x);
    check(false, "a body without end is compiled");
  } catch (const tw::RecordError& e) {
    check(std::string(e.what()).find(why) != std::string::npos, e.what());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("refused after %.2f s: %s\n", seconds, why);
  check(seconds < 1, "a body without end is refused within a second");
}

// --- throwing
struct Thrown {};
int steps_left = 0, steps_done = 0;
void step() {
  ++steps_done;
  if (steps_left > 0 && --steps_left == 0) throw Thrown{};
}
float scaled(float v, int n) {  // what the kernel computes
  float acc = 0;
  for (int k = 0; k < n; ++k) acc += v * static_cast<float>(k);
  return n > 3 ? acc * 2 : acc - 1;
}
const auto inner = tw::kernel("inner", [](tw::View<const float, 1> x, tw::View<float, 1> y) {
  step();
  tw::store(y, {0}, tw::load(x, {0}, {64}));
});
const tw::Tensor<float>* launched_within = nullptr;

const auto thrower = tw::kernel(
    "thrower", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::View<float, 1> sums, tw::Scalar<int> n) {
      step();
      auto v = tw::load(x, {0}, {64});
      step();
      tw::Var acc = tw::zeros<float>(64);
      for (auto k : tw::range(0, n)) {
        step();
        acc += v * k.to<float>();
        step();
      }
      tw::if_(n > 3, [&] {
        step();
        acc *= 2.0f;
        step();
      }).else_([&] {
        step();
        acc -= 1.0f;
      });
      tw::Var rounds = 0;
      tw::while_(
          [&] {
            step();
            return rounds < 2;
          },
          [&] {
            step();
            rounds += 1;
          });
      if (launched_within != nullptr)
        inner.launch(launched_within->device().stream(), {1}, *launched_within, *launched_within);
      tw::store(y, {0}, acc);
      step();
      auto sum = tw::reduce(acc, 0, [](auto a, auto b) {
        step();
        return a + b;
      });
      step();
      tw::store(sums, {0}, tw::expand(sum, 0));
    });

void run_good(const tw::Device& device) {
  const auto x = tw::random_normal<float>(device, {64}, 1);
  const auto y = tw::Tensor<float>::empty(device, {64}), sums = tw::Tensor<float>::empty(device, {1});
  thrower.launch(device.stream(), {1}, x, y, sums, 5);
  const auto hx = x.to_host(), hy = y.to_host();
  double sum = 0, size = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    check(hy[i] == scaled(hx[i], 5), "the kernel that threw");
    sum += hy[i], size += std::abs(hy[i]);
  }
  check(std::abs(sums.to_host()[0] - sum) <= 64 * 0x1p-24 * size, "its sum");
}

void run_throws(const tw::Device& device) {
  const auto x = tw::random_normal<float>(device, {64}, 1);
  const auto y = tw::Tensor<float>::empty(device, {64}), sums = tw::Tensor<float>::empty(device, {1});
  const std::string before = thrower.record_text(x, y, sums, 5);
  const int steps = steps_done;
  for (const bool nested : {false, true}) {
    launched_within = nested ? &x : nullptr;
    for (int k = 1; k <= steps; ++k) {
      steps_left = k;
      bool threw = false;
      try {
        thrower.launch(device.stream(), {1}, x, y, sums, 5);
      } catch (const Thrown&) {
        threw = true;
      } catch (const tw::Error& e) {  // a launch within a kernel is refused by itself
        threw = nested && std::string(e.what()).find("inner") != std::string::npos;
      }
      check(threw, "step " + std::to_string(k));
      steps_left = 0;
      launched_within = nullptr;
      check(thrower.record_text(x, y, sums, 5) == before, "what is recorded after step " + std::to_string(k));
      launched_within = nested ? &x : nullptr;
    }
  }
  launched_within = nullptr;
  const tw::CacheCounters c = tw::cache_counters();
  check(c.stored == 0 && c.compiled == 0, "nothing was compiled or published");
  std::printf("steps=%d\n", steps);
  run_good(device);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  try {
    const tw::Device device = tw::Device::best();
    if (mode == "cached") run_cached(device, std::atoi(arguments[2]));
    if (mode == "small-stack") run_on_small_stack(device);
    if (mode == "deep") {
      refuses_quickly(device, endless<true>, "nested more than 64 deep");
      refuses_quickly(device, endless<false>, "operations");
    }
    if (mode == "throws") run_throws(device);
    if (mode == "warms") run_warms(device);
    if (mode == "good") {
      run_good(device);
      const tw::CacheCounters c = tw::cache_counters();
      std::printf("compiled=%llu\n", static_cast<unsigned long long>(c.compiled));
    }
  } catch (const tw::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
  return right ? 0 : 1;
}
