// Puts fences between bitwise logic and the selects that use it. See x86_masked_logic.h.
// Called by cpu_kernel.cpp after LLVM's own passes, which would take them apart again.
#include "tileweave/jit/codegen/x86_masked_logic.h"

#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

namespace tileweave::codegen {
namespace {

llvm::Value* without_casts(llvm::Value* v) {
  while (auto* cast = llvm::dyn_cast<llvm::BitCastInst>(v)) v = cast->getOperand(0);
  return v;
}

const llvm::BinaryOperator* logic_of(llvm::Value* v) {
  const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(without_casts(v));
  return op != nullptr && op->isBitwiseLogicOp() ? op : nullptr;
}

// Two levels of logic are one vpternlog.
bool is_ternary_logic(llvm::Value* v) {
  const llvm::BinaryOperator* op = logic_of(v);
  return op != nullptr && (logic_of(op->getOperand(0)) != nullptr || logic_of(op->getOperand(1)) != nullptr);
}

bool has_masked_logic(const llvm::SelectInst& s) {
  return s.getCondition()->getType()->isVectorTy() && s.getType()->getScalarSizeInBits() >= 32;
}

void fence(llvm::SelectInst& s, unsigned operand) {
  llvm::IRBuilder<> b(&s);
  llvm::Value* v = s.getOperand(operand);
  const auto* type = llvm::cast<llvm::FixedVectorType>(v->getType());
  llvm::Type* element = type->getScalarSizeInBits() == 64 ? b.getDoubleTy() : b.getFloatTy();
  llvm::Type* floating = llvm::FixedVectorType::get(element, type->getNumElements());
  llvm::Value* apart = b.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {floating}, {b.CreateBitCast(v, floating)});
  s.setOperand(operand, b.CreateBitCast(apart, v->getType()));
}

}  // namespace

void separate_logic_from_selects(llvm::Module& m) {
  std::vector<llvm::SelectInst*> selects;
  for (llvm::Function& f : m) {
    for (llvm::Instruction& i : llvm::instructions(f)) {
      if (auto* s = llvm::dyn_cast<llvm::SelectInst>(&i); s != nullptr && has_masked_logic(*s)) selects.push_back(s);
    }
  }
  for (llvm::SelectInst* s : selects) {
    for (const unsigned operand : {1u, 2u}) {
      if (is_ternary_logic(s->getOperand(operand))) fence(*s, operand);
    }
  }
}

}  // namespace tileweave::codegen
