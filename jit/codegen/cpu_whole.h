// The CPU lowerings of ops on whole tiles: operands from buffers, results into buffers, loops of their own.
// Dispatched by cpu_whole.cpp; one file a family (cpu_move, cpu_sort, cpu_scan, cpu_dot).
#pragma once

#include "tileweave/jit/codegen/cpu_context.h"

namespace tileweave::codegen::cpu {

// The operand's elements evaluated into memory of their own; the address of the first.
llvm::Value* evaluated_in_memory(Context& c, const ir::Value* v);

void lower_slice(Context& c, const ir::Op& op);
void lower_cat(Context& c, const ir::Op& op);
void lower_flip(Context& c, const ir::Op& op);
void lower_gather(Context& c, const ir::Op& op);
void lower_histogram(Context& c, const ir::Op& op);
void lower_sort(Context& c, const ir::Op& op);  // and argsort
void lower_scan(Context& c, const ir::Op& op);  // and fold

}  // namespace tileweave::codegen::cpu
