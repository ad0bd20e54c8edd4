// The user's device functions on the CPU: one call of the host twin for a whole tile, over scratch buffers.
// Called by cpu_region.cpp; the loader finds the twin by its symbol.
#include "tileweave/jit/codegen/cpu_context.h"
#include "tileweave/jit/codegen/cpu_whole.h"

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op;
using llvm::Value;

void lower_external(Context& c, const Op& op) {
  const ir::Value* result = op.results[0];
  auto* pointer = llvm::PointerType::getUnqual(c.b.getContext());
  llvm::AllocaInst* list = c.slot(llvm::ArrayType::get(pointer, op.operands.size()), "operands");
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    Value* const operand = evaluated_in_memory(c, op.operands[i]);
    c.b.CreateStore(operand, c.b.CreateConstInBoundsGEP2_64(list->getAllocatedType(), list, 0, i));
  }
  const Buffer out = c.new_buffer(result->type);
  auto* type = llvm::FunctionType::get(c.b.getVoidTy(), {pointer, pointer, c.b.getInt64Ty()}, false);
  const auto twin = c.entry->getParent()->getOrInsertFunction(op.attrs.get_text(AttrKey::name), type);
  c.b.CreateCall(twin, {out.base, list, c.i64(result->type.elements())});
  if (!is_unit(result)) {
    c.buffers[result] = out;
    return;
  }
  llvm::Type* memory = c.memory_type(result->type);
  Value* x = c.b.CreateAlignedLoad(memory, out.base, llvm::Align(Context::element_bytes(result->type)));
  c.units[result] = c.from_memory(x, result->type);
}

}  // namespace tileweave::codegen::cpu
