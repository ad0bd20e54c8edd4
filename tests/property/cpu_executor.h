// The CPU backend as an executor of the property tests: pipeline, code generation, our own loader, the call.
// Programs run on the calling thread's grid as in a launch.
#pragma once

#include "tests/property/compare.h"

namespace tileweave::property {

Executor cpu_executor(const std::string& target = "native");

// What the interpreter's side is to do first, so that both see the same fmas.
void prepare_for_cpu(ir::Function& f);

}  // namespace tileweave::property
