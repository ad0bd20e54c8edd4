// Makes functions out of pieces of random programs: the opposite of passes/inline_calls, for its tests.
#pragma once

#include "tests/property/program.h"

namespace tileweave::property {

// The program with some runs of its body's ops moved into functions that are called in their place. The same meaning.
Program outlined(const Program& p);

}  // namespace tileweave::property
