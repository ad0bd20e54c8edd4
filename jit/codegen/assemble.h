// PTX to machine code: by ptxas as a process, by nvJitLink in this process, or later by the driver.
// The last step of code generation for NVIDIA GPUs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/env.h"

namespace tileweave::codegen {

struct Assembled {
  Binary::Kind kind = Binary::Kind::cubin;  // ptx where it is left to the driver
  std::vector<std::byte> code;
  std::string meta;  // "assembler=ptxas registers=32 spill_bytes=0"
};

// `target` is "sm_90a"; `kernel` names it in errors. Throws CompileError with the assembler's log, or where the
// assembler chosen is not there.
Assembled assemble(const std::string& ptx, const std::string& target, const std::string& kernel,
                   AssemblerChoice choice);

}  // namespace tileweave::codegen
