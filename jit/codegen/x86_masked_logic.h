// Steers round a mistake in LLVM 19's x86 back end. Last step of the CPU's optimisation, for hosts with AVX-512.
#pragma once

#include <llvm/IR/Module.h>

namespace tileweave::codegen {

// select(c, (x & m) | (y & ~m), x) becomes a masked vpternlog whose operands are exchanged without its table: the
// result is wrong. An arithmetic fence (no instruction) between the logic and the select keeps the two apart. Found by
// the random programs; tests/property keeps the case.
void separate_logic_from_selects(llvm::Module& m);

}  // namespace tileweave::codegen
