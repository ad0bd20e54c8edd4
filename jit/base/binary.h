// A compiled kernel as bytes: what codegen makes, the cache stores and the runtime loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tileweave/jit/base/error.h"

namespace tileweave {

struct Binary {
  enum class Kind : std::uint8_t { elf_object, cubin, ptx, tile_ir };
  Kind kind = Kind::elf_object;
  std::string entry;               // symbol of the kernel
  std::string target;              // "x86-64:znver4", "sm_90a", "simt:sm_90a", "interpret"
  std::vector<std::byte> code;     // an object, a cubin, PTX text or tile IR text
  int threads_per_block = 1;       // GPU and SIMT emulation
  std::int64_t smem_bytes = 0;     // dynamic shared memory of a block
  std::int64_t scratch_bytes = 0;  // CPU: scratch of one worker, 64-byte aligned
  int cluster = 1;                 // blocks in a cluster
  std::string meta;                // free text for inspection: registers, spills, source map
};

// Versioned and bounds-checked; from bytes of any origin. deserialize throws CacheError on malformed input.
std::vector<std::byte> serialize(const Binary& b);
Binary deserialize(std::span<const std::byte> bytes);

// The same for an error's parts, which cross from libtileweave_jit as bytes. Places keep their file names for ever.
std::vector<std::byte> serialize(const Diagnostic& d);
Diagnostic deserialize_diagnostic(std::span<const std::byte> bytes);

}  // namespace tileweave
