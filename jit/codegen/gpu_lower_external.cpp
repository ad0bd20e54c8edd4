// The user's device functions on the GPU: inline PTX, or a call of a function that NVRTC compiles (nvrtc.cpp); under
// SIMT emulation a call of the host twin. One call for each register of the tile.
#include <llvm/IR/InlineAsm.h>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/nvrtc.h"

namespace tileweave::codegen {

using ir::AttrKey;
using ir::Layout;
using ir::Op;

namespace {

// result = twin(operands) through memory, as the CPU calls it.
llvm::Value* call_twin(GpuContext& c, const Op& op, const std::vector<llvm::Value*>& lane, llvm::Type* result) {
  llvm::IRBuilder<> at(&c.kernel->getEntryBlock(), c.kernel->getEntryBlock().begin());
  auto* pointer = llvm::PointerType::getUnqual(c.llvm);
  llvm::AllocaInst *out = at.CreateAlloca(result), *list = at.CreateAlloca(llvm::ArrayType::get(pointer, lane.size()));
  for (std::size_t i = 0; i < lane.size(); ++i) {
    llvm::AllocaInst* x = at.CreateAlloca(lane[i]->getType());
    c.b.CreateStore(lane[i], x);
    c.b.CreateStore(x, c.b.CreateConstInBoundsGEP2_64(list->getAllocatedType(), list, 0, i));
  }
  auto* type = llvm::FunctionType::get(c.b.getVoidTy(), {pointer, pointer, c.b.getInt64Ty()}, false);
  c.b.CreateCall(c.module->getOrInsertFunction(op.attrs.get_text(AttrKey::name), type), {out, list, c.i64(1)});
  return c.b.CreateLoad(result, out);
}

llvm::Value* call_ptx(GpuContext& c, const Op& op, const std::vector<llvm::Value*>& lane, llvm::FunctionType* type) {
  const std::string& constraints = op.attrs.get_text(AttrKey::constraints);
  if (llvm::Error wrong = llvm::InlineAsm::verify(type, constraints)) {
    throw_compile_error(op.place,
                        "inline PTX: the constraints '" + constraints + "' do not fit a function of " +
                            std::to_string(lane.size()) + " operands: " + llvm::toString(std::move(wrong)),
                        "one for the result and one for each operand, for example \"=f,f,f\"");
  }
  return c.b.CreateCall(llvm::InlineAsm::get(type, "{ " + op.attrs.get_text(AttrKey::text) + " }", constraints, false),
                        lane);
}

}  // namespace

void GpuLowering::lower_external(const Op& op) {
  const ir::Value* result = op.results[0];
  const Layout& l = layout_of(result);
  std::vector<Regs> operands;
  for (const ir::Value* v : op.operands) operands.push_back(get(v, l));
  llvm::Type* out = c.elements.register_type(result->type.elem);
  std::vector<llvm::Type*> types;
  for (const ir::Value* v : op.operands) types.push_back(c.elements.register_type(v->type.elem));
  auto* type = llvm::FunctionType::get(out, types, false);
  const bool is_ptx = !op.attrs.get_text(AttrKey::constraints).empty();
  const bool is_device = target_.kind == Target::Kind::nvptx;
  if (is_device && !is_ptx) add_cuda_function(*c.module, op);
  Regs regs(operands[0].size(), nullptr);
  for (std::size_t r = 0; r < regs.size(); ++r) {
    if (operands[0][r] == nullptr) continue;
    std::vector<llvm::Value*> lane;
    for (const Regs& x : operands) lane.push_back(x[r]);
    if (!is_device) {
      regs[r] = call_twin(c, op, lane, out);
    } else if (is_ptx) {
      regs[r] = call_ptx(c, op, lane, type);
    } else {
      regs[r] = c.b.CreateCall(c.module->getOrInsertFunction(op.attrs.get_text(AttrKey::name), type), lane);
    }
    c.split_long_block();
  }
  set(result, std::move(regs));
}

}  // namespace tileweave::codegen
