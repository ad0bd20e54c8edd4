// From a lowered GPU module to PTX: optimise, replace the primitives, optimise, check that nothing is left, emit.
// Between the GPU lowering and the assembler.
#include "tileweave/jit/codegen/nvptx.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Metadata.h>

#include <algorithm>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/llvm_setup.h"
#include "tileweave/jit/codegen/nvptx_primitives.h"
#include "tileweave/jit/codegen/nvrtc.h"

namespace tileweave::codegen {
namespace {

void annotate(llvm::Module& m, llvm::Function& kernel, const char* what, int value) {
  llvm::LLVMContext& c = m.getContext();
  auto* number = llvm::ConstantAsMetadata::get(
      llvm::ConstantInt::get(llvm::Type::getInt32Ty(c), static_cast<std::uint64_t>(value)));
  m.getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(llvm::MDNode::get(c, {llvm::ValueAsMetadata::get(&kernel), llvm::MDString::get(c, what), number}));
}

bool moves_registers(const llvm::Module& m) {
  return m.getFunction("tw.set_registers_up") != nullptr || m.getFunction("tw.set_registers_down") != nullptr;
}
// Operands of products go in and out of vectors, which expanded primitives take apart again.
bool multiplies_matrices(const llvm::Module& m) {
  return std::any_of(m.begin(), m.end(), [](const llvm::Function& f) {
    return f.getName().starts_with("tw.mma_") || f.getName().starts_with("tw.wgmma_");
  });
}
// setmaxnreg counts from a number that the kernel states: an equal share of the multiprocessor's registers, in eights.
int registers_at_entry(int threads) { return std::min(65536 / threads / 8 * 8, 248); }

// The last `count` parameters, addresses of tensor maps, become the maps themselves: 128 bytes by value, which TMA
// reads where the driver put them.
llvm::Function* take_maps_by_value(llvm::Module& m, llvm::Function* old, int count) {
  constexpr unsigned bytes = 128, alignment = 64;
  llvm::LLVMContext& c = m.getContext();
  const auto first = static_cast<unsigned>(old->arg_size()) - static_cast<unsigned>(count);
  std::vector<llvm::Type*> types(old->getFunctionType()->params());
  std::fill(types.begin() + first, types.end(), llvm::PointerType::getUnqual(c));
  llvm::Function* f = move_to_parameters(*old, types);
  llvm::IRBuilder<> b(&*f->getEntryBlock().getFirstInsertionPt());
  std::vector<llvm::Metadata*> numbers;
  for (unsigned i = 0; i < old->arg_size(); ++i) {
    llvm::Value* x = f->getArg(i);
    if (i >= first) {
      f->addParamAttr(i, llvm::Attribute::getWithByValType(c, llvm::ArrayType::get(b.getInt8Ty(), bytes)));
      f->addParamAttr(i, llvm::Attribute::getWithAlignment(c, llvm::Align(alignment)));
      numbers.push_back(llvm::ConstantAsMetadata::get(b.getInt32(i + 1)));
      x = b.CreatePtrToInt(x, b.getInt64Ty());
    }
    old->getArg(i)->replaceAllUsesWith(x);
  }
  old->eraseFromParent();
  m.getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(llvm::MDNode::get(
          c, {llvm::ValueAsMetadata::get(f), llvm::MDString::get(c, "grid_constant"), llvm::MDNode::get(c, numbers)}));
  return f;
}

void make_kernel(llvm::Module& m, const LoweredKernel& kernel) {
  llvm::Function* f = m.getFunction(kernel.entry);
  if (f == nullptr) {
    throw_internal_error(std::source_location::current(), "the module has no kernel '" + kernel.entry + "'");
  }
  if (kernel.tensor_maps > 0) f = take_maps_by_value(m, f, kernel.tensor_maps);
  f->setCallingConv(llvm::CallingConv::PTX_Kernel);
  annotate(m, *f, "kernel", 1);
  annotate(m, *f, "reqntidx", kernel.threads_per_block);
  annotate(m, *f, "reqntidy", 1);
  annotate(m, *f, "reqntidz", 1);
  if (kernel.min_blocks > 0) annotate(m, *f, "minctasm", kernel.min_blocks);
  if (moves_registers(m)) annotate(m, *f, "maxnreg", registers_at_entry(kernel.threads_per_block));
}

// LLVM makes a call of an intrinsic that it does not know, and a library call of what it has no instruction for:
// neither exists on the device.
void check_calls(const llvm::Module& m) {
  for (const llvm::Function& f : m) {
    if (f.isDeclaration() && !f.isIntrinsic() && !f.use_empty() && !is_cuda_function(m, f.getName())) {
      throw_internal_error(std::source_location::current(),
                           "'" + f.getName().str() + "' is called on the device and has no definition");
    }
  }
}
void check_text(const std::string& ptx, const std::string& entry) {
  const std::size_t at = ptx.find(".extern .func");
  if (at == std::string::npos) return;
  throw_internal_error(std::source_location::current(),
                       "the PTX of '" + entry + "' calls a library: " + ptx.substr(at, ptx.find(';', at) - at));
}

}  // namespace

std::string nvptx_text(LoweredKernel& kernel, const Target& target, Emit emit) {
  llvm::Module& m = *kernel.module;
  Target versioned = target;
  versioned.features = "+ptx" + std::to_string(ptx_version_for(m, target.sm));
  const auto machine = make_target_machine(versioned);
  set_target(m, *machine);
  make_kernel(m, kernel);
  verify_module(m);
  optimize(m, *machine);
  const bool has_products = multiplies_matrices(m);
  expand_primitives(m, target.sm);
  verify_module(m);
  if (has_products) {
    optimize(m, *machine);
  } else {
    remove_dead_code(m, *machine);
  }
  check_calls(m);
  if (emit == Emit::llvm) return emit_llvm(m);
  std::string ptx = with_cuda_functions(m, emit_assembly(m, *machine), target);
  check_text(ptx, kernel.entry);
  return ptx;
}

}  // namespace tileweave::codegen
