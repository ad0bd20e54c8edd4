// LLVM's set-up and the trimmed pipeline: see llvm_setup.h.
// Between lowering and Binary, the same for every back end.
#include "tileweave/jit/codegen/llvm_setup.h"

#include <mutex>
#include <source_location>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "tileweave/jit/base/error.h"

namespace tileweave::codegen {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& t) {
  initialize_llvm();
  std::string problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(t.triple, problem);
  if (target == nullptr) throw_compile_error({}, "LLVM has no back end for '" + t.triple + "': " + problem);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      t.triple, t.cpu, t.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) throw_compile_error({}, "LLVM cannot compile for '" + t.triple + "'");
  return machine;
}

void set_target(llvm::Module& m, const llvm::TargetMachine& machine) {
  m.setTargetTriple(machine.getTargetTriple().str());
  m.setDataLayout(machine.createDataLayout());
}

namespace {

void run_passes(llvm::Module& m, llvm::TargetMachine& machine, llvm::FunctionPassManager passes) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  llvm::ModulePassManager all;
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  all.run(m, modules);
}

}  // namespace

llvm::Function* move_to_parameters(llvm::Function& old, const std::vector<llvm::Type*>& types) {
  auto* type = llvm::FunctionType::get(old.getReturnType(), types, false);
  auto* f = llvm::Function::Create(type, old.getLinkage(), "", *old.getParent());
  f->copyAttributesFrom(&old);
  f->setSubprogram(old.getSubprogram());
  old.setSubprogram(nullptr);
  f->takeName(&old);
  f->splice(f->begin(), &old);
  return f;
}

void optimize(llvm::Module& m, llvm::TargetMachine& machine, bool hoist) {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  if (hoist) {
    passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  }
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::ADCEPass());
  run_passes(m, machine, std::move(passes));
}

void remove_dead_code(llvm::Module& m, llvm::TargetMachine& machine) {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::ADCEPass());
  run_passes(m, machine, std::move(passes));
}

namespace {

void emit(llvm::Module& m, llvm::TargetMachine& machine, llvm::raw_pwrite_stream& out, llvm::CodeGenFileType type) {
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true)) {
    throw_internal_error(std::source_location::current(), "LLVM cannot emit this kind of file");
  }
  passes.run(m);
}

}  // namespace

std::vector<std::byte> emit_object(llvm::Module& m, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  emit(m, machine, out, llvm::CodeGenFileType::ObjectFile);
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

std::string emit_assembly(llvm::Module& m, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream out(text);
  emit(m, machine, out, llvm::CodeGenFileType::AssemblyFile);
  return {text.data(), text.size()};
}

std::string emit_llvm(const llvm::Module& m) {
  std::string text;
  llvm::raw_string_ostream out(text);
  m.print(out, nullptr);
  return text;
}

void verify_module(const llvm::Module& m) {
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyModule(m, &out)) {
    throw_internal_error(std::source_location::current(), "malformed LLVM module: " + problem);
  }
}

}  // namespace tileweave::codegen
