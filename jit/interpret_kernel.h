// The interpreter as a device: TILEWEAVE_DEVICE=interpret runs any kernel under the definition of its meaning.
// Made by the front door from a tile_ir Binary: the very IR that a backend would lower.
#pragma once

#include <memory>
#include <string>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/runtime/launch.h"

namespace tileweave::jit {

// Throws CompileError where the text does not parse.
std::shared_ptr<const runtime::LoadedKernel> load_interpreted(const Binary& binary, const std::string& name);

}  // namespace tileweave::jit
