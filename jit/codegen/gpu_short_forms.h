// The instructions of short forms (ir/short_forms.def): the templates of base/meaning/short_forms.h on LLVM values.
// Called by the element-wise lowering of GPUs for ops whose result is only rounded to 16 bits.
#pragma once

#include <span>

#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/ir/short_forms.h"

namespace tileweave::codegen {

// `operands` are f32 scalars; so is the result.
llvm::Value* lower_short_form(GpuContext& c, const ir::ShortForm& form, std::span<llvm::Value* const> operands);

// a / b, correctly rounded, for normal b > 0, normal or zero a and normal quotient: what div.rn does where it takes no
// slow path, without the branch to one. A zero keeps its sign.
llvm::Value* lower_quotient_in_range(GpuContext& c, llvm::Value* a, llvm::Value* b);

}  // namespace tileweave::codegen
