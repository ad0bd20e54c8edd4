// The process's one cache, and what is asked of it with tile IR in hand: keys to look for, entries to store.
// Between the front door (jit.cpp, warm.cpp) and cache/.
#pragma once

#include <string>
#include <vector>

#include "tileweave/cache/cache.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/runtime/device.h"

namespace tileweave::jit {

cache::Cache& process_cache();

// The keys under which an artefact for the device may be stored, best first; what is compiled belongs to the first.
std::vector<cache::Key> candidate_keys(const ir::Function& f, const Device& device);

// Compiles in libtileweave_jit, with TILEWEAVE_DUMP's files.
cache::Entry compile_entry(const ir::Function& f, const std::string& target);

}  // namespace tileweave::jit
