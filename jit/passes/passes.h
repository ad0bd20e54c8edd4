// The passes over tile IR, one file each, with their contracts. Their order stands in jit/pipeline.cpp, with the
// reasons. Each is a function on one ir::Function in place; none calls another.
#pragma once

#include "tileweave/jit/ir/function.h"

namespace tileweave::passes {

// Requires: recorded, contract_fma done. Ensures: no call, and no callees; each call is its callee's body on the call's
// arguments, at the places of the callee's own lines. Throws RecordError where that takes more than max_inlined_ops.
// Why: both backends fuse a function's tiles into the loops around the call, and a tile has no layout or address that a
// caller and a callee compiled apart could agree on before they are lowered.
void inline_calls(ir::Function& f);

// Requires: any stage, no call. Ensures: facts of views (unit and zero strides) and Specialized values are constants.
// Breaks: nothing.
void specialize_facts(ir::Function& f);

// Requires: recorded. Ensures: no var, var_get, var_set; loops, ifs and whiles carry exactly the values they change
// (mem2reg over structured control flow). Breaks: nothing.
void promote_vars(ir::Function& f);

// Requires: promoted. Ensures: (options.checked) an access through a pointer made from a view happens only inside that
// view; elsewhere it is left out and reported by an assert op. Why here: pointers are plain values now, and what
// follows may simplify the checks.
void check_accesses(ir::Function& f);

// Requires: promoted. Ensures: (options.overflow) after each addition, subtraction and product of signed integers of
// the user's stands an assert op that it fits its type. Why here: composed functions, which wrap on purpose, are not
// written out yet. Breaks: nothing.
void check_overflow(ir::Function& f);

// Requires: promoted. Ensures: constants folded (by host_eval), equal pure ops of a region merged (also with outer
// regions'), algebraic identities that are exact for every input applied, dead ops and dead carried values gone,
// loop-invariant pure ops hoisted. Breaks: nothing.
void canonicalize(ir::Function& f);

// Requires: promoted. Ensures: no composed op left; each is its meaning (tileweave::meaning) in native ops;
// f16/bf16/fp8 arithmetic is explicit (convert to f32, op, convert once). Why here: contraction and the interpreter
// must see what every backend sees.
void expand_composed(ir::Function& f);

// The same for GPUs, but for the composed ops that have a short form where they stand (ir/short_forms.h): those stay,
// on f32 operands.
void expand_composed_but_short_forms(ir::Function& f);

// Requires: recorded or promoted, not expanded. Ensures: (options.contract) a floating product whose only use is an
// addition or subtraction of the same region is one fma with it, in the kernel and in each of its callees. Why here:
// before promote_vars a product kept in a Var is no part of a later expression, and before expand_composed what
// functions are composed of is not there yet. Why not LLVM's contract flag: every backend must see the same fma. The
// rule reads the IR alone, so equal text has equal fmas.
void contract_fma(ir::Function& f);

// Requires: promoted. Ensures: loads, stores and `inside` that provably lie within the view have inbounds=1 / are
// constant true. (options.checked: proves nothing, so that every access is checked while running.)
void prove_inside(ir::Function& f);

}  // namespace tileweave::passes
