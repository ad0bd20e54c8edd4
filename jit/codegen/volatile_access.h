// Accesses with the hint "volatile": each is performed once for each lane, between what stands before and after it.
// Used by both lowerings.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>

#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen {

inline bool is_volatile(const ir::Op& op) { return op.attrs.get_text(ir::AttrKey::hint) == "volatile"; }

// An empty instruction that LLVM moves no access of memory across, nor out of a loop, nor merges with one of the other
// side. (Vectors under a mask are intrinsics, which cannot be marked volatile themselves.)
inline void order_volatile(llvm::IRBuilder<>& b, const ir::Op& op) {
  if (!is_volatile(op)) return;
  auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
  b.CreateCall(type, llvm::InlineAsm::get(type, "", "~{memory}", true));
}

}  // namespace tileweave::codegen
