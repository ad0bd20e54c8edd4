// says: gather: the index is a tile of integers of the same rank
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 2> a, tw::Tile<float, 2> b) {
  tw::gather(a, b, 1);  // here
}
