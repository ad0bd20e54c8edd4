// Which `where` ops are worth a branch: those whose first value is long and needed by nobody else, like the reduction
// of a huge angle in sin and cos. Both back ends ask: where no lane takes that value, it is not computed. Between the
// expanded tile IR and the lowerings; it looks at the IR alone.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen {

class RarePaths {
 public:
  explicit RarePaths(const ir::Function& f);

  // What the long value of this `where` reads and others may need too: to be computed before the branch. Null where
  // both values are better computed always.
  const std::vector<const ir::Value*>* before_branch(const ir::Op& where) const;

 private:
  void collect(const ir::Region& r);
  void decide(const std::vector<const ir::Op*>& group);

  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users_;
  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> groups_;  // by condition
  std::unordered_map<const ir::Op*, std::vector<const ir::Value*>> before_;
};

}  // namespace tileweave::codegen
