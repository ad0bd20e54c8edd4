// says: join: both sides have one element type and one rank: convert one with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> a, tw::Tile<tw::f16, 1> b) {
  tw::join(a, b);  // here
}
