// Kernels as they lie in files: tile IR text, manifests, packs and cache roots, back as recorded functions.
// For whoever launches kernels that this program has not recorded itself (the C interface).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tileweave/jit/ir/function.h"

namespace tileweave::jit {

// The kernels called `name` (empty: all) in the file or directory, each once however many layouts of its views are
// stored, in the order of their text; options and constants are set. Throws CompileError for text that is none, and
// CacheError for a file that cannot be read or trusted.
std::vector<ir::Function> stored_kernels(const std::string& path, std::string_view name);

}  // namespace tileweave::jit
