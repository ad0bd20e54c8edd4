// CUDA C++ device functions of the user's: noted while a kernel is lowered, compiled by NVRTC (opened at run time), and
// put into the kernel's PTX. The one file that knows NVRTC.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen {

// The module will call the function of this `external` op: its source, types and place go along as metadata.
void add_cuda_function(llvm::Module& m, const ir::Op& op);
// Whether `name` is such a function: it has a definition although the module has none.
bool is_cuda_function(const llvm::Module& m, llvm::StringRef name);
// The kernel's PTX with the definitions of its CUDA functions. Throws CompileError: at the user's place with NVRTC's
// log where the source is wrong; saying what to install where NVRTC cannot be opened.
std::string with_cuda_functions(const llvm::Module& m, std::string ptx, const Target& target);

}  // namespace tileweave::codegen
