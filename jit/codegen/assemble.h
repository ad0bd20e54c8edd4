// PTX becomes machine code: ptxas as a process, nvJitLink in this process, or left to the driver.
// Last step of the GPU back end; what made the code is recorded in Binary::meta.
#pragma once

#include <string>
#include <vector>

#include "tileweave/jit/base/binary.h"

namespace tileweave::codegen {

// Fills kind, code and meta of `binary` from PTX for "sm_90a" and its like. TILEWEAVE_ASSEMBLER picks the assembler; by
// default the first that is there, and PTX itself where there is none. Throws CompileError with the assembler's words.
void assemble(const std::string& ptx, const std::string& sm, const std::string& kernel, Binary& binary);

// The ptxas that would be used; empty where there is none.
std::string find_ptxas();

}  // namespace tileweave::codegen
