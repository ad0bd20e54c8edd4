// TILEWEAVE_DUMP: every stage of every compile as a file a person can read and feed back to `tileweave compile`.
// Beside the front door; a directory that cannot be written never fails a compile.
#pragma once

#include <string>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/compile.h"

namespace tileweave::jit {

// An observer that writes <dump>/<kernel>-<target>-<number>/<stage>, or an empty one where TILEWEAVE_DUMP is not set.
// `directory` receives the folder.
StageObserver dump_observer(const std::string& kernel, const std::string& target, std::string& directory);
// The machine code into the same folder, named for its kind.
void dump_binary(const std::string& directory, const Binary& b);

}  // namespace tileweave::jit
