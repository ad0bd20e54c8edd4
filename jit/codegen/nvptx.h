// A lowered GPU module as PTX.
// Beside simt.h: the same input. The assembler (assemble.h) takes the text further.
#pragma once

#include <string>

#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/gpu_lower.h"

namespace tileweave::codegen {

// The module is changed: its primitives become instructions and it is optimised for the target. Errors: InternalError
// naming a primitive or an instruction that has no PTX on this target.
std::string nvptx_text(LoweredKernel& kernel, const Target& target, Emit emit);

}  // namespace tileweave::codegen
