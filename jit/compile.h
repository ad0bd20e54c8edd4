// The compiler on one screen: specialise, passes, code generation. Front of libtileweave_jit and of `tileweave
// compile`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::jit {

// Called after each stage with its name ("01_promote_vars") and the text; for TILEWEAVE_DUMP.
using StageObserver = std::function<void(std::string_view stage, const std::string& text)>;

// GPUs keep the ops that they have short forms of (ir/short_forms.h).
enum class Backend { any, gpu };

// The passes, in the pipeline's order, verified after each.
void run_pipeline(ir::Function& f, const StageObserver& observe = {}, Backend backend = Backend::any);

// A recorded (and specialised) function to a Binary for `target`. Throws CompileError.
Binary compile(const ir::Function& recorded, const std::string& target, const StageObserver& observe = {});

}  // namespace tileweave::jit
