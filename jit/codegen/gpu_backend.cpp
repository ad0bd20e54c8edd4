// The GPU's entry points of codegen.h: lower, then PTX and an assembler, or an object for SIMT emulation.
// Between codegen.cpp, which picks the back end, and nvptx.cpp or simt.cpp.
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/assemble.h"
#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/gpu_lower.h"
#include "tileweave/jit/codegen/llvm_setup.h"
#include "tileweave/jit/codegen/nvptx.h"
#include "tileweave/jit/codegen/simt.h"

namespace tileweave::codegen {

std::string gpu_text(const ir::Function& f, const Target& t, Emit emit) {
  llvm::LLVMContext context;
  LoweredKernel kernel = lower_for_gpu(f, t, context);
  if (t.kind == Target::Kind::nvptx) return nvptx_text(kernel, t, emit);
  return emit == Emit::llvm ? emit_llvm(*kernel.module) : simt_assembly(*kernel.module, kernel.entry);
}

Binary gpu_binary(const ir::Function& f, const Target& t) {
  llvm::LLVMContext context;
  LoweredKernel kernel = lower_for_gpu(f, t, context);
  Binary b;
  b.entry = kernel.entry;
  b.threads_per_block = kernel.threads_per_block;
  b.smem_bytes = kernel.smem_bytes;
  b.target = t.cpu;
  if (t.kind == Target::Kind::simt) {
    b.kind = Binary::Kind::elf_object;
    b.target = "simt:" + t.cpu;
    b.code = simt_object(*kernel.module, kernel.entry);
  } else {
    assemble(nvptx_text(kernel, t, Emit::assembly), t.cpu, f.name, b);
  }
  return b;
}

}  // namespace tileweave::codegen
