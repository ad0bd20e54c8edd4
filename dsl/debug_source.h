// The text of a kernel's lambda as a debugger's names need it: tokens, parameters, declarations and assignments.
// Read by debug_names.cpp from the user's file; no C++ is understood beyond that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/jit/base/place.h"

namespace tileweave::record {

struct SourceToken {
  enum class Kind : std::uint8_t { word, number, text, mark };
  Kind kind = Kind::mark;
  std::string_view text;
  std::uint32_t line = 0, column = 0;
  std::size_t partner = 0;  // of ( [ {: the index of what closes it
};

// Tokens [begin, end) of one statement that gives `name` a value.
struct SourceStatement {
  enum class Kind : std::uint8_t { value, variable, loop_index, assignment, bindings };
  Kind kind = Kind::value;
  std::string name;
  std::uint32_t line = 0, last_line = 0;
  std::size_t begin = 0, end = 0;  // the initialiser's tokens
  std::vector<std::string> names;  // of structured bindings
};

struct KernelSource {
  std::string text;  // on the heap: tokens point into it
  std::vector<SourceToken> tokens;
  std::vector<std::string> parameters;  // without tw::Const ones, which are no parameters of the compiled kernel
  std::vector<SourceStatement> statements;
  bool found = false;
};

// The lambda of tw::kernel("name", ...), or with another `maker` tw::function("name", ...), nearest to the place.
KernelSource read_kernel_source(const Place& place, std::string_view name, std::string_view maker = "kernel");

}  // namespace tileweave::record
