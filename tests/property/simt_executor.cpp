// See simt_executor.h. The launch goes through the machine directly, so that every test can have its own seed.
// The memory a launch may touch is that of its views, as in SimtKernel.
#include "tests/property/simt_executor.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/codegen/gpu_lower.h"
#include "tileweave/jit/codegen/llvm_setup.h"
#include "tileweave/jit/codegen/simt.h"
#include "tileweave/jit/compile.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/simt_kernel.h"

namespace tileweave::property {

void prepare_for_backend(ir::Function& f) { jit::run_pipeline(f, {}, jit::Backend::gpu); }

Executor simt_executor(SimtOptions options) {
  return [options = std::move(options)](const ir::Function& recorded, std::span<const std::uint64_t> slots,
                                        const ir::Grid& grid) {
    ir::Function f = recorded.clone();
    prepare_for_backend(f);
    llvm::LLVMContext context;
    const codegen::Target target = codegen::parse_target(options.target);
    codegen::LoweredKernel lowered = codegen::lower_for_gpu(f, target, context);
    if (options.mutate) options.mutate(*lowered.module);
    if (options.observe) options.observe(*lowered.module);
    Binary binary;
    binary.entry = lowered.entry;
    binary.target = options.target;
    binary.threads_per_block = lowered.threads_per_block;
    binary.smem_bytes = lowered.smem_bytes;
    binary.meta = lowered.meta;
    binary.code = codegen::simt_object(*lowered.module, lowered.entry);
    runtime::load_simt_kernel(binary, f.name, {}, options.seed)
        ->launch(runtime::simt_device("sm_90a", {}).default_stream({}), grid.data(), slots.data(),
                 static_cast<int>(slots.size()));
  };
}

}  // namespace tileweave::property
