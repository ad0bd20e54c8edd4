// What a code base defines: fusion groups and kernels with their types, as JSON; and the files that a parse has read.
#pragma once

#include <map>
#include <string>

#include "llvm/Support/JSON.h"
#include "source.h"

namespace tileweave::decorator {

class Inventory {
 public:
  // Adds what the file and the user's headers that it includes define; each definition once.
  void add(Parsed& parsed);
  // {"fusion_groups": [{"name", "kind", "file", "line", "type"}...], "kernels": [{"name", "file", "line", "parameters",
  // "template"}...]}
  std::string json() const;

 private:
  std::map<std::string, llvm::json::Object> groups_, kernels_;  // by place
};

// A make rule: `target` depends on every file that was read.
std::string dependencies(const Parsed& parsed, const std::string& target);

}  // namespace tileweave::decorator
