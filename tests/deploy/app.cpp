// The program of the deployment tests: a few kernels on layouts that the command line picks, every result checked, then
// the cache's counters as "name=value". Exit status 0 if all was right, 4 if a counter is not as expected.
//   --layouts=recorded|all    what is launched: plain tensors, or also shifted bases, odd strides and reversed columns
//   --expect=compiled:0,...   counters that must have these values
//   --warm=FILE               warm from a manifest in the background first, without waiting
//   --distinct=N              N kernels of different constants, each compiled, run and dropped
//   --forks=N                 fork N times while threads compile
//   --threads=N               N threads begin with the process's first compile at once
//   --exit=return|exit|quick_exit|_exit   how the process ends; 7 is its status
#include <malloc.h>
#include <sys/wait.h>
#include <tileweave/tileweave.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tw = tileweave;

namespace {

std::map<std::string, std::string> options;
std::string option(const std::string& name, const std::string& fallback = "") {
  const auto at = options.find(name);
  return at == options.end() ? fallback : at->second;
}
int number(const std::string& name, int fallback) {
  return options.contains(name) ? std::atoi(options[name].c_str()) : fallback;
}

// Held by a global, a function's static, a thread_local and a pointer that is never deleted: their order at exit must
// not matter.
auto make_scale() {
  return tw::kernel("scale",
                    [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Scalar<float> by, tw::Const<int> block) {
                      auto first = tw::program_id(0) * block;
                      tw::store(y, {first}, tw::load(x, {first}, {block}) * by);
                    });
}
using Scale = decltype(make_scale());
const Scale global_scale = make_scale();
thread_local const Scale thread_scale = make_scale();
const Scale& static_scale() {
  static const Scale kernel = make_scale();
  return kernel;
}
const Scale& leaked_scale() {
  static const Scale* const kernel = new Scale(make_scale());
  return *kernel;
}

const auto row_sum = tw::kernel("row_sum", [](tw::View<const float, 2> x, tw::View<float, 1> y, tw::Const<int> block) {
  auto row = tw::program_id(0);
  auto v = tw::load(x, {row, 0}, {1, block});
  tw::store(y, {row}, tw::sum(v, 1));
});

const auto power = tw::kernel(
    "power", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Specialized<int> times, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      tw::store(y, {first}, tw::load(x, {first}, {block}) * times.to<float>());
    });

bool right = true;
void check(bool ok, const char* what) {
  if (!ok) std::fprintf(stderr, "wrong: %s\n", what);
  right = right && ok;
}

void run_scale(const Scale& kernel, const tw::Tensor<float>& x, float by) {
  auto y = tw::Tensor<float>::empty(x.device(), {x.extent(0)});
  kernel.launch(x.device().stream(), {tw::cdiv(x.extent(0), 256)}, x, y, by, 256);
  const auto hx = x.to_host(), hy = y.to_host();
  bool ok = true;
  for (std::size_t i = 0; i < hx.size(); ++i) ok = ok && hy[i] == hx[i] * by;
  check(ok, "scale");
}

void run_row_sum(const tw::Tensor<float>& x) {
  auto y = tw::Tensor<float>::empty(x.device(), {x.extent(0)});
  row_sum.launch(x.device().stream(), {x.extent(0)}, x, y, 128);
  const auto hx = x.to_host(), hy = y.to_host();
  bool ok = true;
  for (std::size_t i = 0; i < hy.size(); ++i) {
    const auto n = static_cast<std::size_t>(x.extent(1));
    double sum = 0, size = 0;
    for (std::size_t j = 0; j < n; ++j) {
      sum += hx[i * n + j];
      size += std::abs(hx[i * n + j]);
    }
    // One rounding for each of the levels of a sum of 128, and one more.
    ok = ok && std::abs(hy[i] - sum) <= 8 * 0x1p-24 * size;
  }
  check(ok, "row_sum");
}

void run_power(const tw::Device& device, int times) {
  auto x = tw::random_normal<float>(device, {300}, 5);
  auto y = tw::Tensor<float>::empty(device, {300});
  power.launch(device.stream(), {2}, x, y, times, 256);
  const auto hx = x.to_host(), hy = y.to_host();
  bool ok = true;
  for (std::size_t i = 0; i < hx.size(); ++i) ok = ok && hy[i] == hx[i] * static_cast<float>(times);
  check(ok, "power");
}

void run_layouts(const tw::Device& device, bool all) {
  auto line = tw::random_normal<float>(device, {5000}, 1);
  auto square = tw::random_normal<float>(device, {60, 130}, 2);
  run_scale(global_scale, line, 3.0f);
  run_row_sum(square.slice(1, 0, 120));
  run_power(device, 3);
  if (!all) return;
  for (tw::index_t shift = 1; shift <= 3; ++shift) run_scale(global_scale, line.slice(0, shift, 4990), 0.5f);
  run_scale(static_scale(), line, 2.0f);
  run_scale(leaked_scale(), line, 4.0f);
  run_scale(thread_scale, line, 8.0f);
  run_row_sum(square.slice(1, 1, 118));
  run_row_sum(square.slice(1, 0, 60).transpose());
  run_row_sum(square.flip(1).slice(1, 3, 120));
}

// Every kernel object is of its own constant and dies at once; memory must not remember them.
void run_distinct(const tw::Device& device, int count) {
  auto x = tw::random_normal<float>(device, {8}, 1);
  auto y = tw::Tensor<float>::empty(device, {8});
  std::size_t before = 0;
  const int warm = std::min(count / 2, 1000);
  for (int i = 0; i < count; ++i) {
    if (i == warm) before = ::mallinfo2().uordblks;
    const auto kernel =
        tw::kernel("distinct", [](tw::View<const float, 1> in, tw::View<float, 1> out, tw::Const<int> addend) {
          tw::store(out, {0}, tw::load(in, {0}, {8}) + tw::full<float>(addend, 8));
        });
    kernel.launch(device.stream(), {1}, x, y, i);
    if (i % 97 == 0) {
      const auto hx = x.to_host(), hy = y.to_host();
      for (std::size_t j = 0; j < 8; ++j) check(hy[j] == hx[j] + static_cast<float>(i), "distinct");
    }
  }
  const double each = (static_cast<double>(::mallinfo2().uordblks) - static_cast<double>(before)) / (count - warm);
  std::printf("bytes_kept_each=%.1f\n", each);
}

void run_forks(const tw::Device& device, int forks) {
  std::atomic<bool> stop{false};
  std::atomic<int> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      while (!stop) run_power(device, 100 + next++);
    });
  }
  for (int i = 0; i < forks; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(1 + std::rand() % 5000));
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // a child that hangs is a failure
      right = true;
      run_power(device, 100000 + i);
      run_power(device, 3);
      ::_exit(right ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child");
  }
  stop = true;
  for (auto& t : threads) t.join();
}

void run_threads(const tw::Device& device, int count) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      run_power(device, 1 + t % 4);
    });
  }
  for (auto& t : threads) t.join();
}

std::map<std::string, unsigned long long> counters() {
  const tw::CacheCounters c = tw::cache_counters();
  return {{"lookups", c.lookups},
          {"memory", c.memory},
          {"layer", c.layer},
          {"disk", c.disk},
          {"compiled", c.compiled},
          {"waited", c.waited},
          {"failed", c.failed},
          {"stored", c.stored},
          {"sum", c.memory + c.layer + c.disk + c.compiled + c.waited + c.failed}};
}

// Background compiles may be under way still; the counters add up once they have ended.
std::map<std::string, unsigned long long> counters_at_rest() {
  for (int i = 0; i < 500; ++i) {
    auto all = counters();
    if (all["sum"] == all["lookups"]) return all;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return counters();
}

bool counters_are(const std::string& expected) {
  auto all = counters_at_rest();
  bool ok = all["sum"] == all["lookups"];
  for (std::size_t at = 0; at < expected.size();) {
    const std::size_t end = std::min(expected.find(',', at), expected.size()), colon = expected.find(':', at);
    const std::string name = expected.substr(at, colon - at);
    ok = ok && all.contains(name) && all[name] == std::stoull(expected.substr(colon + 1, end - colon - 1));
    at = end + 1;
  }
  return ok;
}

void run(const tw::Device& device) {
  if (options.contains("warm")) {
    tw::Warmup warmup = tw::warmup_async(option("warm"), device);
    run_layouts(device, true);  // while it warms
    warmup.wait();
    check(warmup.is_done() && warmup.failures().empty(), "warmup");
    run_layouts(device, true);
  }
  if (options.contains("distinct")) return run_distinct(device, number("distinct", 0));
  if (options.contains("forks")) return run_forks(device, number("forks", 0));
  if (options.contains("threads")) return run_threads(device, number("threads", 0));
  run_layouts(device, option("layouts", "recorded") == "all");
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string text = arguments[i];
    const std::size_t equals = std::min(text.find('='), text.size());
    options[text.substr(2, equals - 2)] = equals < text.size() ? text.substr(equals + 1) : "";
  }
  try {
    run(tw::Device::best());
  } catch (const tw::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
  if (!option("exit").empty()) {
    if (!right) return 1;
    if (option("exit") == "exit") std::exit(7);
    if (option("exit") == "quick_exit") std::quick_exit(7);
    if (option("exit") == "_exit") ::_exit(7);
    return 7;
  }
  for (const auto& [name, value] : counters_at_rest()) std::printf("%s=%llu\n", name.c_str(), value);
  if (!right) return 1;
  return counters_are(option("expect")) ? 0 : 4;
}
