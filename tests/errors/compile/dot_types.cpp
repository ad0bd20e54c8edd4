// says: dot: both sides have one element type: convert one with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 2> a, tw::Tile<tw::f16, 2> b) {
  tw::dot(a, b);  // here
}
