// The front door of the JIT for dsl: a recorded, specialised function and a device in, a loaded kernel out.
// Key, memory, disk, compile, load: in this order, each at most once per process and key.
#pragma once

#include <memory>

#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/launch.h"

namespace tileweave::jit {

// Throws CompileError, CacheError, LaunchError (loading). Thread-safe. The kernel lives until the process ends.
// `recorded` is at Stage::recorded with facts and options set: all that code generation may see.
std::shared_ptr<const runtime::LoadedKernel> get(const ir::Function& recorded, const Device& device);

}  // namespace tileweave::jit
