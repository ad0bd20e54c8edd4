// From a module of GPU primitives to PTX: bodies for the primitives, kernel annotations, LLVM's trimmed pipeline.
// Beside simt.h: same input. What turns PTX into a cubin is assemble_ptx.h.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/gpu_lower.h"

namespace tileweave::codegen {

// Replaces every call of a primitive by its instructions. InternalError where one has none here, or where a function
// would be left without a body (LLVM takes an unknown llvm.nvvm name for a function to call).
void expand_primitives(llvm::Module& module);

// The kernel's PTX. The module is used up.
std::string make_ptx(LoweredKernel& kernel, const Target& target);

// "ptx80" for 8.0: the oldest version that has what we emit for this target, so that old drivers take it.
std::string ptx_feature(const Target& target);

}  // namespace tileweave::codegen
