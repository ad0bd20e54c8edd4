// The front door of the JIT for dsl: a recorded, specialised function and a device in, a loaded kernel out.
// Key, memory, disk, compile, load: in this order, each at most once per process and key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tileweave/cache/counters.h"
#include "tileweave/cache/fork.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/launch.h"

namespace tileweave::jit {

using Kernel = std::shared_ptr<const runtime::LoadedKernel>;

// Throws CompileError, CacheError, LaunchError (loading). Thread-safe. The kernel is unloaded with its last handle.
// `recorded` is at Stage::recorded with facts and options set: all that code generation may see.
// Where compiling is forbidden and this variant is not cached, the kernel's generic variant serves, if it is.
Kernel get(const ir::Function& recorded, const Device& device);

// The same where nothing has to be compiled for it; null otherwise.
Kernel find(const ir::Function& recorded, const Device& device);

// A kernel on its way. Copies are handles of the same.
class PendingKernel {
 public:
  bool is_ready() const;
  // Waits; throws what compiling or loading threw.
  Kernel get() const;

 private:
  friend PendingKernel get_in_background(const ir::Function&, const Device&);
  struct State;
  std::shared_ptr<State> state_;
};
PendingKernel get_in_background(const ir::Function& recorded, const Device& device);

// What serves launches of `recorded` on the device until `pending` is ready: its generic variant (compiled now if it
// must be), or for a CUDA device and Meanwhile::cpu its CPU variant on copies of the launch's tensors.
Kernel stand_in(const ir::Function& recorded, const Device& device, const PendingKernel& pending, Meanwhile how);

// What this process's launches do while their kernel is compiled; begins as TILEWEAVE_MEANWHILE.
void set_meanwhile(Meanwhile how);
Meanwhile meanwhile();

// Compiles the records of a manifest for the device in the background, generic variants included, into the cache.
class WarmupState;
struct WarmupFailure {
  std::string kernel, message;
};
std::shared_ptr<WarmupState> warm_in_background(const std::string& manifest, const Device& device);
// The same for one recorded and specialised kernel, which stays loaded as long as the state lives.
std::shared_ptr<WarmupState> warm_in_background(ir::Function f, const Device& device);
std::size_t warm_total(const WarmupState& state);
std::size_t warm_done(const WarmupState& state);
void warm_wait(WarmupState& state);
std::vector<WarmupFailure> warm_failures(const WarmupState& state);

// Records variants into a directory from now on; an empty name stops it.
void record_to(const std::string& directory);

cache::Counters cache_counters();

}  // namespace tileweave::jit
