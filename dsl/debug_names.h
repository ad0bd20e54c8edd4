// Gives recorded values the names that the user's source gives them, for debuggers (TILEWEAVE_DEBUG=full).
// Between recording (variants.cpp) and the JIT: reads the kernel's lambda from its file and writes debug_value ops.
#pragma once

#include <vector>

#include "tileweave/jit/ir/function.h"

namespace tileweave::record {

// What one recorded operation gave, and the place of the statement that asked for it.
struct RecordedResult {
  Place place;
  ir::Value* value = nullptr;
  ir::Value* mask = nullptr;  // null: all lanes valid
};

// Names parameters, and puts a debug_value after every value that a declaration or an assignment of the lambda names:
// `auto e = tw::exp(x);` shows `e` from that line on, although the expression is recorded where it is used. Tiles that
// have invalid lanes get a second variable, `e_valid`. What cannot be matched stays without a name; the code is the
// same with and without. A file that cannot be read leaves the function as it is.
void name_values(ir::Function& f, const std::vector<RecordedResult>& results);

// The same for a tw::function, its parameters included: `d` of the function `moments` shows as `moments_d` in the
// kernels that call it, as it was in the last call.
void name_function_values(ir::Function& f, const std::vector<RecordedResult>& results);

// The parameters' names alone, for messages of checked mode.
void name_parameters(ir::Function& f);

}  // namespace tileweave::record
