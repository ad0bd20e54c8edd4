// Which assembler turns PTX into machine code on this machine, and its version: a cubin's key holds both.
// Asked by the front door for keys, by code generation for the tool itself, and by `tileweave doctor`.
#pragma once

#include <string>

#include "tileweave/jit/base/env.h"

namespace tileweave {

// The ptxas that would be taken: in PATH (absolute folders only), $CUDA_HOME/bin, /usr/local/cuda/bin. Empty: none.
std::string find_ptxas();
// "12.4.131", asked of the program once a process; "unknown" where it does not say.
std::string ptxas_version(const std::string& program);

// A handle of libnvJitLink, opened once and never closed; null where there is none.
void* nvjitlink_library();
// "12.4"; "unknown" for a library older than the function that says it.
std::string nvjitlink_version();

// What assembling with this choice yields here.
struct AssemblerId {
  std::string artefact;  // "cubin", or "ptx" where the driver assembles at load
  std::string text;      // "ptxas 12.4.131", "nvjitlink 12.4", "driver"
};
AssemblerId assembler_id(AssemblerChoice choice);

}  // namespace tileweave
