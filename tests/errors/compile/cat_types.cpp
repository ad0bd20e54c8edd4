// says: cat: both sides have one element type and one rank: convert with .to<T>(), add axes with tw::expand
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> a, tw::Tile<int, 1> b) {
  tw::cat(a, b);  // here
}
