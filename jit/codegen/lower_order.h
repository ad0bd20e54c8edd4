// The order of elements as unsigned integers, for sort and argsort: -0 before +0, every NaN after all numbers.
// Shared by both back ends; works on scalars and on vectors.
#pragma once

#include "tileweave/jit/codegen/lower_elementwise.h"

namespace tileweave::codegen {

// The element (in register form) as an integer of its width (bool: i8) whose unsigned order is the element's;
// `descending` turns it round.
llvm::Value* to_order_key(ElementLowering& e, llvm::Value* x, Dtype t, bool descending);
// Back again, in register form. A NaN comes back as some NaN.
llvm::Value* from_order_key(ElementLowering& e, llvm::Value* key, Dtype t, bool descending);
// Bits of a key.
inline unsigned order_key_bits(Dtype t) { return is_bool(t) ? 8 : static_cast<unsigned>(dtype_info(t).bits); }

}  // namespace tileweave::codegen
