// Liveness over structured control flow: which ops, results and carried values something depends on.
// Used by canonicalize, which drops the rest.
#pragma once

#include "tileweave/jit/ir/function.h"

namespace tileweave::passes {

// Erases ops without effect whose results nothing needs, and loop-carried values, if results and the like that only
// feed themselves. Gives whether anything went.
bool erase_dead(ir::Function& f);

}  // namespace tileweave::passes
