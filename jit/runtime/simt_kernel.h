// A kernel of the SIMT emulation: the object that codegen/simt.cpp made, run thread by thread on the host.
// Made by the simt devices' load(); launched by dsl like any other kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tileweave/jit/runtime/launch.h"

namespace tileweave::runtime {

// Loads `binary` (an elf_object of target "simt:..."; entry, threads_per_block, smem_bytes and cluster as for a cubin).
// A launch runs every block and returns; what goes wrong in a block is a LaunchError of kind fault that names kernel,
// block, thread, primitive and the user's place. TILEWEAVE_SIMT_SEED picks another order of warps and lanes; `seed`,
// where not 0, goes before it.
std::shared_ptr<const LoadedKernel> load_simt_kernel(const Binary& binary, const std::string& name, const Place& place,
                                                     std::uint64_t seed = 0);

}  // namespace tileweave::runtime
