// says: cumsum: a tile of numbers with at least one axis: convert bools with .to<int>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<bool, 1> a) {
  tw::cumsum(a, 0);  // here
}
