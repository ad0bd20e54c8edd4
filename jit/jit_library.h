// Opens libtileweave_jit at the first cache miss and calls its one function.
// Between the front door (jit.cpp) and the compiler; a process with a warm cache never gets here.
#pragma once

#include <string>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/compile.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::jit {

// Compiles `recorded` for `target` in libtileweave_jit; `observe`, where set, sees every stage.
// Throws RecordError or CompileError (also where the library cannot be opened, saying why), InternalError.
Binary compile_in_library(const ir::Function& recorded, const std::string& target, const StageObserver& observe = {});

// The id of the code generator that this library was built with; part of every key.
const char* codegen_id();
// The LLVM that it uses, and whether libtileweave_jit can be opened here (an empty text: it can).
const char* llvm_version();
std::string why_no_compiler();

}  // namespace tileweave::jit
