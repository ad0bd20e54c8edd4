// What an emulated module says about itself, as the text its object carries: sites, texts, views.
// Written by codegen/simt.cpp, read here when the object is loaded.
#pragma once

#include <string_view>

#include "tileweave/jit/runtime/simt_machine.h"

namespace tileweave::runtime::simt {

// Lines, each ending with '\n', in the order of their numbers:
//   site <line> <column> <file>      text <text, with \n and \\ escaped>      view <slot> <rank> <element bytes>
// Errors: LaunchError on a line of another form.
About parse_about(std::string_view text);

}  // namespace tileweave::runtime::simt
