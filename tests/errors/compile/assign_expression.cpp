// says: a tile is immutable: declare the value as tw::Var to assign to it
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 2> t) {
  auto u = t + 1;
  u = t + 2;  // here
}
