// Recording: what this process uses, as a manifest of its own in a directory. Hits are recorded like compiles.
// Told by the front door (jit.cpp) of every variant once it is asked for; costs nothing while it is off.
#pragma once

#include <string>

#include "tileweave/cache/manifest.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::jit {

// From now on into this directory, whatever TILEWEAVE_RECORD says; an empty name stops it. Variants that were asked for
// before are not known any more.
void record_to(const std::string& directory);

// Appends the variant unless this process has already recorded it. Never throws: a file that cannot be written costs
// one warning.
void record_use(const ir::Function& f) noexcept;

// The record of a variant, and back. Throws RecordError or CompileError where its text is no kernel.
cache::Record record_of(const ir::Function& f);
ir::Function function_of(const cache::Record& record);

}  // namespace tileweave::jit
