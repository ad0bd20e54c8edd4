// Runs the clusters of a grid on all cores and words the first fault as a LaunchError; joins the tables of primitives.
// See simt_machine.h.
#include "tileweave/jit/runtime/simt_machine.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/cpu_pool.h"
#include "tileweave/jit/runtime/launch.h"
#include "tileweave/jit/runtime/simt_call.h"
#include "tileweave/jit/runtime/simt_cluster.h"

namespace tileweave::runtime::simt {
namespace {

// One launch while it runs: what the workers share.
struct Progress {
  const Grid* grid = nullptr;
  std::atomic<std::int64_t> faulty_cluster{INT64_MAX};  // the lowest so far: later ones need not run
  std::mutex mutex;
  std::optional<Fault> fault;
  std::exception_ptr error;  // no memory, say
};

void run_clusters(Progress& p, std::int64_t begin, std::int64_t end) {
  thread_local Fibers fibers;
  for (std::int64_t i = begin; i < end && i < p.faulty_cluster.load(std::memory_order_relaxed); ++i) {
    Cluster cluster(*p.grid, i * p.grid->cluster, fibers);
    std::optional<Fault> fault = cluster.run();
    if (!fault) continue;
    const std::lock_guard lock(p.mutex);
    if (i >= p.faulty_cluster.load(std::memory_order_relaxed)) return;
    p.faulty_cluster.store(i, std::memory_order_relaxed);
    p.fault = std::move(fault);
    return;
  }
}

// A CpuEntry: a program is a cluster.
void run_part(const std::uint64_t*, const std::int64_t*, std::int64_t begin, std::int64_t end, void*, void* services) {
  auto& p = *static_cast<Progress*>(services);
  try {
    run_clusters(p, begin, end);
  } catch (...) {
    const std::lock_guard lock(p.mutex);
    p.error = std::current_exception();
    p.faulty_cluster.store(0, std::memory_order_relaxed);
  }
}

[[noreturn]] void throw_fault(const Grid& grid, const Fault& f, const Place& launch) {
  Place place = launch;
  const auto* sites = grid.about != nullptr ? &grid.about->sites : nullptr;
  if (sites != nullptr && f.site > 0 && static_cast<std::size_t>(f.site) < sites->size()) {
    const About::Site& s = (*sites)[static_cast<std::size_t>(f.site)];
    if (s.line != 0) place = {intern(s.file), s.line, s.column};
  }
  std::string context = std::string("kernel '") + grid.kernel + "', block " + std::to_string(f.block);
  if (f.thread >= 0) {
    context += ", thread " + std::to_string(f.thread) + " (warp " + std::to_string(f.thread / warp_size) + ", lane " +
               std::to_string(f.thread % warp_size) + ")";
  }
  if (!f.primitive.empty()) context += ", in " + f.primitive;
  const ErrorContext scope(context);
  throw_launch_error(place, f.message, f.help, LaunchError::Kind::fault);
}

}  // namespace

void run_grid(const Grid& grid, const Place& place) {
  if (grid.threads <= 0 || grid.threads % warp_size != 0 || grid.threads > 1024 || grid.cluster < 1 ||
      grid.cluster > 16 || grid.blocks % grid.cluster != 0) {
    throw_launch_error(place, std::string("kernel '") + grid.kernel + "': " + std::to_string(grid.threads) +
                                  " threads a block in clusters of " + std::to_string(grid.cluster) +
                                  " cannot be emulated");
  }
  Progress progress;
  progress.grid = &grid;
  const std::int64_t extents[3] = {grid.blocks / grid.cluster, 1, 1};
  run_on_all_cores({run_part, grid.slots, extents, 0, &progress}, extents[0]);
  if (progress.error) std::rethrow_exception(progress.error);
  if (progress.fault) throw_fault(grid, *progress.fault, place);
}

std::vector<GlobalRange> tidy(std::vector<GlobalRange> ranges) {
  std::erase_if(ranges, [](const GlobalRange& r) { return r.begin >= r.end; });
  std::sort(ranges.begin(), ranges.end(), [](const GlobalRange& a, const GlobalRange& b) { return a.begin < b.begin; });
  std::vector<GlobalRange> out;
  for (const GlobalRange& r : ranges) {
    if (out.empty() || r.begin >= out.back().end) {
      out.push_back(r);
    } else {
      out.back().end = std::max(out.back().end, r.end);
    }
  }
  return out;
}

namespace {
const Rows& all_rows() {
  static const Rows& rows = *[] {
    auto* r = new Rows;
    add_core_rows(*r);
    add_memory_rows(*r);
    add_atomic_rows(*r);
    add_math_rows(*r);
    add_async_rows(*r);
    add_mma_rows(*r);
    add_wgmma_rows(*r);
    add_tma_rows(*r);
    for (Row& row : *r) row.name = "tw." + row.name;
    return r;
  }();
  return rows;
}
}  // namespace

std::span<const Symbol> simt_symbols() {
  static const std::vector<Symbol>& symbols = *[] {
    auto* s = new std::vector<Symbol>;
    for (const Row& r : all_rows()) s->push_back({r.name.c_str(), r.address});
    add_soft_float(*s);
    s->insert(s->end(), host_symbols().begin(), host_symbols().end());
    return s;
  }();
  return symbols;
}

std::vector<SymbolSignature> simt_signatures() {
  std::vector<SymbolSignature> out;
  for (const Row& r : all_rows()) out.push_back({r.name, r.letters});
  return out;
}

}  // namespace tileweave::runtime::simt
