// The lower_<fn> functions that the `llvm` column of ir/ops.def names, declared from the table itself.
// Called by ElementLowering::op alone; a row whose function is missing does not link.
#pragma once

#include <span>

#include "tileweave/jit/codegen/lower_elementwise.h"

namespace tileweave::codegen {

// Operands in register form, and the element type they have (of `where`: that of the second and third).
struct Operands {
  Dtype type;
  std::span<llvm::Value* const> values;
  llvm::Value* operator[](std::size_t i) const { return values[i]; }
};

#define TILEWEAVE_DECLARE_instr(s, u, f)
#define TILEWEAVE_DECLARE_custom(fn) llvm::Value* lower_##fn(ElementLowering& e, const Operands& x);
#define TILEWEAVE_DECLARE_expanded
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm_, gradient, ulp, text) TILEWEAVE_DECLARE_##llvm_
#include "tileweave/jit/ir/ops.def"
#undef TILEWEAVE_DECLARE_instr
#undef TILEWEAVE_DECLARE_custom
#undef TILEWEAVE_DECLARE_expanded

}  // namespace tileweave::codegen
