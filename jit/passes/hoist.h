// Moves what a loop computes anew in every round, and always equal, before the loop.
// Used by canonicalize.
#pragma once

#include "tileweave/jit/ir/function.h"

namespace tileweave::passes {

// Only pure ops move; nothing traps, so it does no harm where the loop makes no trip. Tiles that are cheap to make
// again (constants, broadcasts, iota and other moves of lanes) stay, unless something that moves needs them: held
// across a loop they would cost registers. Gives whether anything moved.
bool hoist_invariants(ir::Function& f);

}  // namespace tileweave::passes
