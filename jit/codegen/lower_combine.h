// The region of a scan or fold as arithmetic on registers: one call for each combination that is made.
// Shared by both back ends, over ElementLowering: scalars and vectors alike.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tileweave/jit/codegen/lower_elementwise.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen {

// One value of each type that the op combines.
using Combined = std::vector<llvm::Value*>;

class CombineLowering {
 public:
  // `outer` gives the scalars that the region takes from around it.
  CombineLowering(ElementLowering& e, const ir::Op& op, std::function<llvm::Value*(const ir::Value*)> outer)
      : e_(e), region_(*op.regions[0]), outer_(std::move(outer)) {}

  // a, then b. Both scalars, or both vectors of one length.
  Combined operator()(const Combined& a, const Combined& b) const;
  // The same where each may be absent: a flag that is null is always true. The result's flag goes to `present`.
  Combined masked(const Combined& a, llvm::Value* has_a, const Combined& b, llvm::Value* has_b,
                  llvm::Value*& present) const;

 private:
  ElementLowering& e_;
  const ir::Region& region_;
  std::function<llvm::Value*(const ir::Value*)> outer_;
};

}  // namespace tileweave::codegen
