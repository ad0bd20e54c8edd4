// PTX from a lowered module: target machine, annotations, the pipeline.
// Between gpu_lower.h and assemble_ptx.h.
#include "tileweave/jit/codegen/nvptx.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Metadata.h>

#include <array>
#include <cctype>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/llvm_setup.h"

namespace tileweave::codegen {
namespace {

// What each target needs at least, from the PTX ISA's release notes. LLVM 19 knows versions up to 8.5; a newer one it
// would take for 6.0 without a word.
struct PtxVersion {
  int sm;
  bool arch_specific;
  const char* feature;
};
constexpr std::array<PtxVersion, 5> ptx_versions{{
    {80, false, "ptx78"},  // 7.0 has sm_80; 7.8 is what a CUDA 11.8 driver takes
    {86, false, "ptx78"},
    {89, false, "ptx81"},  // fp8 conversions and mma
    {90, false, "ptx80"},
    {90, true, "ptx83"},  // wgmma, setmaxnreg, the later mbarrier forms
}};

void annotate(llvm::Module& m, llvm::Function& kernel, int threads) {
  llvm::LLVMContext& c = m.getContext();
  llvm::NamedMDNode* list = m.getOrInsertNamedMetadata("nvvm.annotations");
  const auto add = [&](const char* what, int n) {
    llvm::Metadata* number =
        llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(c), static_cast<std::uint64_t>(n)));
    list->addOperand(llvm::MDNode::get(c, {llvm::ValueAsMetadata::get(&kernel), llvm::MDString::get(c, what), number}));
  };
  add("kernel", 1);
  add("maxntidx", threads);
  kernel.setCallingConv(llvm::CallingConv::PTX_Kernel);
}

// Fused multiply-adds come from the tile IR alone, approximate instructions from primitives alone.
void check_ptx(const std::string& ptx) {
  for (const char* word : {"div.full", "sqrt.approx.ftz.f32 \t", ".extern .func"}) {
    if (ptx.find(word) != std::string::npos) {
      throw_internal_error(std::source_location::current(), std::string("the PTX has '") + word + "'");
    }
  }
}

}  // namespace

std::string ptx_feature(const Target& target) {
  for (const PtxVersion& v : ptx_versions) {
    if (v.sm == target.sm && v.arch_specific == target.arch_specific) return v.feature;
  }
  throw_compile_error({}, "no PTX version is known for '" + target.cpu + "'");
}

std::string make_ptx(LoweredKernel& kernel, const Target& target) {
  Target t = target;
  t.features = "+" + ptx_feature(target);
  const auto machine = make_target_machine(t);
  llvm::Module& m = *kernel.module;
  set_target(m, *machine);
  for (const char* name : {"tw.sites", "tw.texts", "tw.views"}) {
    if (llvm::NamedMDNode* node = m.getNamedMetadata(name)) m.eraseNamedMetadata(node);
  }
  expand_primitives(m);
  annotate(m, *m.getFunction(kernel.entry), kernel.threads_per_block);
  verify_module(m);
  optimize(m, *machine);
  std::string ptx = emit_assembly(m, *machine);
  check_ptx(ptx);
  return ptx;
}

}  // namespace tileweave::codegen
