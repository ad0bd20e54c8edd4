// The front door: key, memory, disk, compile, load. See jit.h.
// Reached at a kernel's first launch with new facts; later launches go from dsl/kernel.h straight to the loaded kernel.
#include "tileweave/jit/jit.h"

#include <map>
#include <mutex>
#include <utility>

#include "tileweave/cache/cache.h"
#include "tileweave/cache/fork.h"
#include "tileweave/jit/background.h"
#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/fork.h"
#include "tileweave/jit/interpret_kernel.h"
#include "tileweave/jit/ir/generic.h"
#include "tileweave/jit/keys.h"
#include "tileweave/jit/process_cache.h"
#include "tileweave/jit/recording.h"
#include "tileweave/jit/runtime/simt_kernel.h"

namespace tileweave::jit {
namespace {
using runtime::LoadedKernel;

Kernel load(const Device& device, const Binary& b, const ir::Function& f) {
  if (device.kind() == DeviceKind::interpret) return load_interpreted(b, f.name);
  if (device.kind() == DeviceKind::simt) return runtime::load_simt_kernel(b, f.name, f.place);
  return runtime::load_kernel(device, b, f.name, f.place);
}

// A cached binary that the loader refuses is dropped, and the next candidate or a fresh compile takes its place; the
// refusal of what was just compiled is the user's to see.
Kernel load_or_recompile(const Device& device, const ir::Function& f, const std::vector<cache::Key>& candidates) {
  const std::string target = compile_target(device);
  const cache::Cache::Compile compile = [&] { return compile_entry(f, target); };
  for (std::size_t attempt = 0;; ++attempt) {
    const cache::Result found = process_cache().get_or_compile(candidates, compile);
    try {
      return load(device, deserialize(found.entry.payload), f);
    } catch (const Error&) {
      if (found.source == cache::Source::compiled || attempt > candidates.size()) throw;
    }
    process_cache().reject(candidates[found.key_index]);
  }
}

// Kernels that this process has loaded: the only global table of the JIT. It keeps none alive.
using Slot = std::pair<const runtime::DeviceState*, std::vector<std::byte>>;
struct LoadedTable final : cache::ForkAware {
  std::mutex mutex;
  std::map<Slot, std::weak_ptr<const LoadedKernel>> kernels;

  LoadedTable() { cache::watch_forks(*this); }
  void before_fork() override { mutex.lock(); }
  void after_fork(bool) override { mutex.unlock(); }
};
LoadedTable& loaded() {
  static constinit Once<LoadedTable> once;  // never destroyed: kernels may be dropped at exit
  return once.get([] { return new LoadedTable; });
}

Slot slot_of(const Device& device, const cache::Key& key) {
  return {&device.state(), {key.blob().begin(), key.blob().end()}};
}

Kernel find_loaded(const Slot& slot) {
  const std::lock_guard lock(loaded().mutex);
  const auto found = loaded().kernels.find(slot);
  return found == loaded().kernels.end() ? nullptr : found->second.lock();
}

// The handle that callers share: with its last copy the module is unloaded and its place in the table is freed.
Kernel publish(const Slot& slot, Kernel kernel) {
  const LoadedKernel* const raw = kernel.get();
  Kernel shared(raw, [slot, kernel = std::move(kernel)](const LoadedKernel*) mutable {
    {
      const std::lock_guard lock(loaded().mutex);
      const auto at = loaded().kernels.find(slot);
      if (at != loaded().kernels.end() && at->second.expired()) loaded().kernels.erase(at);
    }
    kernel.reset();  // not under the lock: unloading may wait for the device
  });
  const std::lock_guard lock(loaded().mutex);
  std::weak_ptr<const LoadedKernel>& place = loaded().kernels[slot];
  // Two threads may load one kernel at once: the first one's stays.
  if (Kernel first = place.lock()) return first;
  place = shared;
  return shared;
}

// Nothing where it would have to be compiled.
Kernel find_cached(const ir::Function& f, const Device& device) {
  const std::vector<cache::Key> candidates = candidate_keys(f, device);
  const Slot slot = slot_of(device, candidates.front());
  if (Kernel kernel = find_loaded(slot)) return kernel;
  const auto found = process_cache().find(candidates);
  if (!found) return nullptr;
  try {
    return publish(slot, load(device, deserialize(found->entry.payload), f));
  } catch (const Error&) {
    process_cache().reject(candidates[found->key_index]);
    return nullptr;
  }
}

Kernel get_exact(const ir::Function& f, const Device& device) {
  const std::vector<cache::Key> candidates = candidate_keys(f, device);
  const Slot slot = slot_of(device, candidates.front());
  if (Kernel kernel = find_loaded(slot)) return kernel;
  return publish(slot, load_or_recompile(device, f, candidates));
}

std::string context_of(const ir::Function& f) { return "kernel '" + f.name + "'"; }
}  // namespace

Kernel get(const ir::Function& recorded, const Device& device) {
  const ErrorContext context(context_of(recorded));
  record_use(recorded);
  if (env().jit == JitMode::forbid) {
    if (Kernel exact = find_cached(recorded, device)) return exact;
    // A sealed process was warmed with the generic variants, too: they serve layouts that no recording has seen.
    if (Kernel generic = find_cached(ir::generic_variant(recorded), device)) return generic;
  }
  return get_exact(recorded, device);
}

Kernel find(const ir::Function& recorded, const Device& device) {
  const ErrorContext context(context_of(recorded));
  Kernel kernel = find_cached(recorded, device);
  if (kernel) record_use(recorded);
  return kernel;
}

struct PendingKernel::State {
  std::shared_ptr<Task> task;
  Kernel kernel;  // set by the task
};

bool PendingKernel::is_ready() const { return state_->task->is_done(); }

Kernel PendingKernel::get() const {
  state_->task->wait();
  return state_->kernel;
}

PendingKernel get_in_background(const ir::Function& recorded, const Device& device) {
  PendingKernel pending;
  pending.state_ = std::make_shared<PendingKernel::State>();
  // The task holds the state, and the state the task: undone when the task has run.
  auto function = std::make_shared<const ir::Function>(recorded.clone());
  pending.state_->task =
      run_in_background([state = pending.state_, function, device] { state->kernel = jit::get(*function, device); });
  return pending;
}

cache::Counters cache_counters() { return process_cache().counters(); }

}  // namespace tileweave::jit
