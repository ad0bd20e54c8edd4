// The GPU back ends' doors: a function becomes LLVM IR, PTX, a cubin, or an object for SIMT emulation.
// Between codegen.h and the GPU lowering with its two implementations of the primitives.
#include "tileweave/jit/base/env.h"
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
  b.target = (t.kind == Target::Kind::simt ? "simt:" : "") + t.cpu;
  b.threads_per_block = kernel.threads_per_block;
  b.smem_bytes = kernel.smem_bytes;
  b.meta = kernel.meta;
  if (t.kind == Target::Kind::simt) {
    b.kind = Binary::Kind::elf_object;
    b.code = simt_object(*kernel.module, kernel.entry);
    return b;
  }
  Assembled done = assemble(nvptx_text(kernel, t, Emit::assembly), t.cpu, f.name, env().assembler);
  b.kind = done.kind;
  b.code = std::move(done.code);
  b.meta = done.meta + (done.meta.empty() || kernel.meta.empty() ? "" : " ") + kernel.meta;
  return b;
}

}  // namespace tileweave::codegen
