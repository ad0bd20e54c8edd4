// The GPU lowering's front: an expanded tile IR function becomes an LLVM module that calls GPU primitives.
// nvptx.h turns the module into PTX, simt.h runs the same module on the host.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen {

struct LoweredKernel {
  std::unique_ptr<llvm::Module> module;
  std::string entry;
  int threads_per_block = 32;
  std::int64_t smem_bytes = 0;  // dynamic
  int min_blocks = 0;           // that a multiprocessor shall hold at once; 0: as the assembler likes
  int tensor_maps = 0;          // of the last parameters: addresses here, maps by value in PTX
  std::string meta;             // for Binary::meta
};

// `f` is verified, and expanded but for ops with a short form (passes.h). The kernel takes the slots of runtime/abi.h,
// the three grid extents, and where it prints or checks the address of its channel (jit/base/channel.h). Throws
// CompileError where the target cannot hold it (shared memory).
LoweredKernel lower_for_gpu(const ir::Function& f, const Target& target, llvm::LLVMContext& context);

}  // namespace tileweave::codegen
