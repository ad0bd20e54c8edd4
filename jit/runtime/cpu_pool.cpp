// The CPU grid on oneTBB; on plain threads where TILEWEAVE_PLAIN_THREADS is defined (Debian's oneTBB floods TSan).
// Under the CPU kernel's launch.
#include "tileweave/jit/runtime/cpu_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#ifdef TILEWEAVE_PLAIN_THREADS
#include <vector>
#else
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#endif

#include "tileweave/jit/base/fork.h"

namespace tileweave::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// A part should outweigh what handing it out costs (about a microsecond), and waking a worker costs several.
constexpr std::int64_t part_ns = 15'000, serial_ns = 10'000;
constexpr std::int64_t estimate_ns = 1'000;  // below, reading the clock is most of what was measured
constexpr std::int64_t parts_per_worker = 4;
constexpr std::int64_t max_scratch_bytes = std::int64_t{1} << 38;  // more is a mistake, not a wish

class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { std::free(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* at_least(std::int64_t bytes) noexcept {
    if (bytes <= bytes_) return memory_;
    if (bytes > max_scratch_bytes) return nullptr;
    std::free(memory_);
    const std::int64_t rounded = (std::max(bytes, 2 * bytes_) + 63) / 64 * 64;
    memory_ = std::aligned_alloc(64, static_cast<std::size_t>(rounded));
    bytes_ = memory_ != nullptr ? rounded : 0;
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

bool run_part(const CpuWork& w, std::int64_t begin, std::int64_t end) {
  void* scratch = nullptr;
  if (w.scratch_bytes > 0 && (scratch = thread_scratch(w.scratch_bytes)) == nullptr) return false;
  w.entry(w.slots, w.grid, begin, end, scratch, w.services);
  return true;
}

#ifdef TILEWEAVE_PLAIN_THREADS
bool run_parallel(const CpuWork& w, std::int64_t begin, std::int64_t end, std::int64_t grain) {
  std::atomic<std::int64_t> next{begin};
  std::atomic<bool> complete{true};
  const auto work = [&] {
    for (std::int64_t at = next.fetch_add(grain); at < end; at = next.fetch_add(grain)) {
      if (!run_part(w, at, std::min(end, at + grain))) complete = false;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < cpu_workers(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  return complete;
}
#else
bool run_parallel(const CpuWork& w, std::int64_t begin, std::int64_t end, std::int64_t grain) {
  using Range = oneapi::tbb::blocked_range<std::int64_t>;
  std::atomic<bool> complete{true};
  // Isolated: while this call waits, its thread takes no task of an outer loop, which might hold what a part needs.
  oneapi::tbb::this_task_arena::isolate([&] {
    oneapi::tbb::parallel_for(Range(begin, end, static_cast<std::size_t>(grain)), [&](const Range& part) {
      if (!run_part(w, part.begin(), part.end())) complete.store(false, std::memory_order_relaxed);
    });
  });
  return complete;
}
#endif

}  // namespace

void* thread_scratch(std::int64_t bytes) noexcept {
  thread_local Scratch scratch;
  return scratch.at_least(bytes);
}

int cpu_workers() {
#ifdef TILEWEAVE_PLAIN_THREADS
  static const int workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return workers;
#else
  return oneapi::tbb::this_task_arena::max_concurrency();
#endif
}

bool run_on_all_cores(const CpuWork& work, std::int64_t total) {
  if (total <= 0) return true;
  if (total == 1) return run_part(work, 0, 1);
  const int workers = !work.serial && !is_forked_child() ? cpu_workers() : 1;  // a forked child has no workers
  if (workers == 1) return run_part(work, 0, total);
  // Twice as many programs each time while it stays quick; the rest is shared out at the pace seen so far.
  std::int64_t done = 0, step = 1, elapsed_ns = 0;
  const auto start = Clock::now();
  while (done < total) {
    const std::int64_t pace_ns = done > 0 ? std::max<std::int64_t>(1, elapsed_ns / done) : 0;
    if (elapsed_ns >= estimate_ns &&
        elapsed_ns + static_cast<double>(pace_ns) * static_cast<double>(total - done) > serial_ns) {
      const std::int64_t fair = std::max<std::int64_t>(1, (total - done) / (workers * parts_per_worker));
      return run_parallel(work, done, total, std::clamp<std::int64_t>(part_ns / pace_ns, 1, fair));
    }
    const std::int64_t end = std::min(total, done + step);
    if (!run_part(work, done, end)) return false;
    done = end;
    step *= 2;
    elapsed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }
  return true;
}

}  // namespace tileweave::runtime
