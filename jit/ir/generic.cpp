// See generic.h.
#include "tileweave/jit/ir/generic.h"

namespace tileweave::ir {

Function generic_variant(const Function& f) {
  Function g = f.clone();
  for (Param& p : g.params) {
    if (p.value->type.is_view()) p.facts = generic_view_facts();
  }
  return g;
}

}  // namespace tileweave::ir
