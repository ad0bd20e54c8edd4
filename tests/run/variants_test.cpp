// Specialisation: what makes a variant, the budget, the log, and a steady state without allocation.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>

#include "reference.h"

namespace {

std::atomic<std::int64_t> allocations{0};
std::string logged;

void keep_log(bool is_warning, const std::string& line) { logged += (is_warning ? "warning: " : "") + line + "\n"; }

struct Log {
  Log() {
    logged.clear();
    tw::launch::set_log_sink(keep_log);
  }
  ~Log() { tw::launch::set_log_sink(nullptr); }
};

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(n == 0 ? 1 : n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("a variant for each layout and constant, and the log says which argument made it") {
  const Log log;
  const auto k = tw::kernel("layouts", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> n) {
    tw::store(y, {0, 0}, tw::load(x, {0, 0}, {n, n}));
  });
  const auto x = tensor<float>({8, 8}, counting(64)), y = tw::Tensor<float>::zeros(device(), {8, 8});
  k.launch(device().stream(), {1}, x, y, 8);
  k.launch(device().stream(), {1}, y, tw::Tensor<float>::zeros(device(), {8, 8}), 8);
  CHECK(k.variant_count() == 1);
  k.launch(device().stream(), {1}, x.transpose(), y, 8);
  CHECK(k.variant_count() == 2);
  CHECK(logged ==
        "kernel 'layouts': variant 2: argument 1 differs in which stride is 1, 16-byte alignment of strides\n");
  CHECK(doubles(y) == doubles(x.transpose()));
  k.launch(device().stream(), {1}, x, y, 4);
  CHECK(k.variant_count() == 3);
  k.launch(device().stream(), {1}, x, x, 8);
  CHECK(k.variant_count() == 4);
  CHECK(logged.ends_with("argument 2 differs in overlap with another view\n"));
}

TEST_CASE("past its budget a kernel runs the generic variant, with one warning, and stays right") {
  const Log log;
  const auto k = tw::kernel("budget", [](tw::View<const float, 4> x, tw::View<float, 4> y) {
    tw::store(y, {0, 0, 0, 0}, tw::load(x, {0, 0, 0, 0}, {2, 2, 2, 4}) + 1);
  });
  const auto memory = tensor<float>({4096}, counting(4096));
  int wrong = 0, launches = 0;
  for (int zero = 0; zero < 16; ++zero) {
    for (int offset = 0; offset < 2; ++offset) {
      auto x = memory.slice(0, offset, offset + 512).reshape({8, 4, 4, 4});
      for (int axis = 0; axis < 4; ++axis) {
        const bool is_broadcast = ((zero >> axis) & 1) != 0;
        x = is_broadcast ? x.slice(axis, 0, 1) : x.slice(axis, 0, axis == 3 ? 4 : 2);
      }
      x = x.broadcast_to({2, 2, 2, 4});
      const auto y = tw::Tensor<float>::zeros(device(), {2, 2, 2, 4});
      k.launch(device().stream(), {1}, x, y);
      auto expected = doubles(x);
      for (double& v : expected) v += 1;
      wrong += doubles(y) != expected;
      ++launches;
    }
  }
  CHECK(launches == 32);
  CHECK(wrong == 0);
  CHECK(k.variant_count() == tw::launch::default_variant_budget + 1);
  const std::string warning =
      "warning: kernel 'budget' has used its budget of 16 layout variants; other layouts run the generic one, which is "
      "slower\n";
  const auto first = logged.find(warning);
  REQUIRE(first != std::string::npos);
  CHECK(logged.find("warning", first + warning.size()) == std::string::npos);
}

TEST_CASE("a launch of a known variant allocates nothing and is counted") {
  const auto k = tw::kernel("steady", [](tw::View<const float, 1> a, tw::View<const float, 1> b, tw::View<float, 1> y,
                                         tw::Scalar<int> n, tw::Scalar<float> s, tw::Const<int> block) {
    tw::store(y, {n}, tw::load(a, {0}, {block}) * s + tw::load(b, {0}, {block}));
  });
  const auto a = tensor<float>({16}, counting(16)), b = tensor<float>({16}, counting(16)),
             y = tw::Tensor<float>::zeros(device(), {16});
  const tw::Stream stream = device().stream();
  k.launch(stream, {0}, a, b, y, 0, 2.0f, 16);
  k.launch(stream, {1}, a, b, y, 0, 2.0f, 16);
  const auto launches = tw::launch_count();
  // Those that check instead of being fast allocate.
  if (device().kind() != tw::DeviceKind::interpret && device().kind() != tw::DeviceKind::simt) {
    const auto before = allocations.load();
    for (int i = 0; i < 100; ++i) k.launch(stream, {1}, a, b, y, 0, 2.0f, 16);
    CHECK(allocations.load() == before);
    CHECK(tw::launch_count() == launches + 100);
  }
  CHECK(doubles(y)[3] == 9);
}

TEST_CASE("a kernel of very many constants keeps the latest loaded; threads that launch meanwhile are right") {
  const auto k = tw::kernel("many", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> n) {
    tw::store(y, {0}, tw::load(x, {0}, {4}) + tw::full<float>(static_cast<float>(n), 4));
  });
  const bool is_slow = device().kind() == tw::DeviceKind::cuda;  // compiling for a GPU takes longer
  const int constants = is_slow ? 300 : 700;
  std::atomic<int> wrong{0};
  std::atomic<bool> stop{false};
  const auto run = [&](int n) {
    const auto x = tensor<float>({4}, counting(4)), y = tw::Tensor<float>::zeros(device(), {4});
    k.launch(device().stream(), {1}, x, y, n);
    auto expected = doubles(x);
    for (double& v : expected) v += n;
    wrong += doubles(y) != expected;
  };
  // Old constants that go out and come back while another thread makes new ones.
  std::thread old([&] {
    for (int i = 0; !stop; ++i) run(i % 5);
  });
  for (int n = 0; n < constants; ++n) run(n);
  stop = true;
  old.join();
  CHECK(wrong == 0);
  CHECK(k.variant_count() >= constants);
}
