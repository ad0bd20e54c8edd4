// Replaces the calls of GPU primitives in a module by LLVM instructions and inline PTX.
// Between nvptx.cpp, which runs it inside the pipeline, and the texts of nvptx.def.
#pragma once

#include <llvm/IR/Module.h>

namespace tileweave::codegen {

// The PTX version (x 10) that the primitives used by the module need on this target; at least 80. Refuses by name
// (InternalError) a primitive that has no PTX here.
int ptx_version_for(const llvm::Module& m, int sm);

// Replaces every call. Constant predicates and hints should have been folded before: a predicate known to be true
// makes an ordinary LLVM load or store.
void expand_primitives(llvm::Module& m, int sm);

}  // namespace tileweave::codegen
