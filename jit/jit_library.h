// Opens libtileweave_jit at the first cache miss and calls its one function.
// Between the front door (jit.cpp) and the compiler; a process with a warm cache never gets here.
#pragma once

#include <string>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::jit {

// Compiles `recorded` for `target` in libtileweave_jit, writing every stage to TILEWEAVE_DUMP where that is set.
// Throws RecordError or CompileError (also where the library cannot be opened: names the paths tried), InternalError.
Binary compile_in_library(const ir::Function& recorded, const std::string& target);

// The id of the code generator that this library was built with; part of every key.
const char* codegen_id();

}  // namespace tileweave::jit
