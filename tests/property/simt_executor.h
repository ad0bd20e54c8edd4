// The GPU lowering under SIMT emulation as an executor of the property tests.
// Recorded function in; pipeline, GPU lowering, host object, the machine.
#pragma once

#include <functional>
#include <string>

#include "tests/property/compare.h"

namespace llvm {
class Module;
}

namespace tileweave::property {

struct SimtOptions {
  std::string target = "simt:sm_90a";
  std::uint64_t seed = 0;                                 // of the order of warps
  std::function<void(llvm::Module&)> mutate = {};         // changes the lowered module: a planted mistake
  std::function<void(const llvm::Module&)> observe = {};  // sees the lowered module
};
Executor simt_executor(SimtOptions options = {});

// What the executor does before it lowers: for compare_with_interpreter.
void prepare_for_backend(ir::Function& f);

}  // namespace tileweave::property
