// says: dot: both sides have the same rank, at least 2: use tw::expand or tw::reshape
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 2> a, tw::Tile<float, 1> b) {
  tw::dot(a, b);  // here
}
