// The generic variant of a kernel: the one whose facts are true of every launch.
// Used past a kernel's budget of variants, by warm-up, and by processes that must not compile or do not wait.
#pragma once

#include "tileweave/jit/ir/function.h"

namespace tileweave::ir {

// Nothing is known of a view, and anything may overlap.
inline ViewFacts generic_view_facts() {
  ViewFacts f;
  f.may_alias = true;
  return f;
}

// `f` with generic facts for every view.
Function generic_variant(const Function& f);

}  // namespace tileweave::ir
