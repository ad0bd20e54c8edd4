// What every back end needs of LLVM: target machines, the trimmed pipeline of optimisations, and emission.
// Between a module that lower_* filled and the bytes or text of a Binary.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "tileweave/jit/codegen/codegen.h"

namespace tileweave::codegen {

// Registers the back ends built in (the host's and the other CPU's, and NVPTX); once, from any thread.
void initialize_llvm();

// A machine for the target's triple, cpu and features. No contraction of a * b + c behind our back,
// position-independent code, small code model. Throws CompileError where LLVM does not know the target.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& t);

// Gives the module the machine's triple and data layout. Do this before lowering into it.
void set_target(llvm::Module& m, const llvm::TargetMachine& machine);

// A function of these parameter types with the name, attributes, debug information and body of `old`, whose arguments
// the caller replaces and which it then erases.
llvm::Function* move_to_parameters(llvm::Function& old, const std::vector<llvm::Type*>& types);

// SROA, EarlyCSE, InstCombine, SimplifyCFG, GVN, InstCombine, DCE: what lowered code needs and no more; the lowering
// writes vector code itself. `hoist` adds LICM.
void optimize(llvm::Module& m, llvm::TargetMachine& machine, bool hoist = true);

// What is left of dead code once primitives are expanded: the passes before have done the rest.
void remove_dead_code(llvm::Module& m, llvm::TargetMachine& machine);

// The module as an object, as assembly (x86 or PTX), or as LLVM IR. Throws InternalError with LLVM's complaint where
// the module is malformed.
std::vector<std::byte> emit_object(llvm::Module& m, llvm::TargetMachine& machine);
std::string emit_assembly(llvm::Module& m, llvm::TargetMachine& machine);
std::string emit_llvm(const llvm::Module& m);

// LLVM's verifier; InternalError on failure. Cheap beside the rest, so it always runs before `optimize`.
void verify_module(const llvm::Module& m);

}  // namespace tileweave::codegen
