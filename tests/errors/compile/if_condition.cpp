// says: if_: the condition is a scalar bool: use tw::where for each lane, or reduce it with tw::any
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> t) {
  tw::if_(t > 0, [] {});  // here
}
