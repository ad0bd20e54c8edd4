// Cache keys: which profiles a device accepts, best first, and the keys of a function under them.
// First step of the front door (jit.cpp); the cache itself knows nothing of what the fields mean.
#pragma once

#include <string>
#include <vector>

#include "tileweave/cache/cache.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/runtime/device.h"

namespace tileweave::jit {

// What this process would compile for the target: "sm_90a", "x86-64-v3", "simt:sm_80", "interpret", or a full CPU name.
cache::Profile profile_for(const std::string& target, AssemblerChoice assembler);

// What code is made for on the device. LLVM 19 ends at sm_90a; a newer device gets the plain sm_90 variant.
std::string compile_target(const Device& device);

// Whether an artefact of the profile runs on the device: another assembler's, an older architecture's of the same
// family, or a lesser x86-64 level's all do. Only what this very code generator made counts.
bool runs_on(const cache::Profile& profile, const Device& device);

// Profiles whose artefacts run on the device, best first: what this process would compile (left out where it must not
// compile), then those that the cache's read-only stores hold. At most 8.
std::vector<cache::Profile> accepted_profiles(const Device& device, const cache::Cache& cache, const Env& env);

// The keys: profile, options, facts and constants each in a field of its own, then the canonical text without them.
// Debug and checked builds carry source lines in their code, so there the lines are part of the text.
std::vector<cache::Key> keys_of(const ir::Function& f, const std::vector<cache::Profile>& profiles);

}  // namespace tileweave::jit
