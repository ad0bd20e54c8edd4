// Compiling what a manifest records, without launching it: for `tileweave warmup` and tw::warmup_async.
// Above the front door's parts; below the commands and dsl/deploy.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tileweave/cache/entry.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/jit/base/env.h"

namespace tileweave::jit {

// The records, and for each kernel its generic variant, which serves layouts that no recording has seen. Sorted, each
// once. Records that are no kernels are kept as they are: compiling them says what is wrong.
std::vector<cache::Record> with_generic_variants(const std::vector<cache::Record>& records);

// "native" in full; every other target as it is.
std::string full_target(const std::string& target);

struct Warmed {
  cache::Key key;
  cache::Entry entry;
};
// Compiles one record for a target that `tileweave compile --target` knows. Throws RecordError, CompileError.
Warmed compile_record(const cache::Record& record, const std::string& target, AssemblerChoice assembler);

}  // namespace tileweave::jit
