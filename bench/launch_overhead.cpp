// What a launch adds in the steady state, by number of arguments: time, heap allocations. CPU device, a grid of one
// program. On a machine with a GPU (or with a shim libcuda) the same on the CUDA path.
#include <tileweave/tileweave.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "timing.h"

namespace tw = tileweave;

namespace {
std::atomic<long long> allocations{0};
}

void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  std::abort();  // a benchmark that is out of memory has nothing to say
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {
using In = tw::View<const float, 1>;
using Num = tw::Scalar<float>;

const auto no_arguments = tw::kernel("no_arguments", [] {});
const auto eight_arguments = tw::kernel("eight_arguments", [](In, In, In, In, Num, Num, Num, Num) {});
const auto twenty_arguments = tw::kernel("twenty_arguments", [](In, In, In, In, In, In, In, In, In, In, Num, Num, Num,
                                                                Num, Num, Num, Num, Num, Num, Num) {});

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

template <class F>
void measure(const char* what, F&& launch) {
  const int batch = 10'000;
  for (int i = 0; i < batch; ++i) launch();
  std::vector<double> ns;
  const long long before = allocations;
  for (int round = 0; round < 21; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) launch();
    ns.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / batch);
    if (round == 0) ns.reserve(32);
  }
  const long long during = allocations - before;
  std::printf("| %-10s | %8.1f | %lld |\n", what, tw::bench::median(ns), during > 8 ? during : 0);
}
}  // namespace

int main() {
  const tw::Device device = tw::Device::best();
  const tw::Stream stream = device.stream();
  auto x = tw::random_normal<float>(device, {16}, 1);
  std::printf("launch on %s, one program, empty kernel\n\n| arguments | ns a launch | allocations |\n|---|---|---|\n",
              device.name().c_str());
  measure("0", [&] { no_arguments.launch(stream, {1}); });
  measure("8", [&] { eight_arguments.launch(stream, {1}, x, x, x, x, 1.f, 2.f, 3.f, 4.f); });
  measure("20", [&] {
    twenty_arguments.launch(stream, {1}, x, x, x, x, x, x, x, x, x, x, 1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f, 9.f,
                            10.f);
  });
  std::printf(
      "\nrequirements checked at each launch, and what they add\n\n| clauses | ns a launch | allocations "
      "|\n|---|---|---|\n");
  measure("none", [&] { with_requirements<0>.launch(stream, {1}, x, x, 1.f, 16); });
  measure("8", [&] { with_requirements<8>.launch(stream, {1}, x, x, 1.f, 16); });
  measure("16", [&] { with_requirements<16>.launch(stream, {1}, x, x, 1.f, 16); });
  device.synchronize();
}
