// says: atomic_and: not for this element type
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<float, 1> x, tw::Tile<float, 1> t) {
  tw::atomic_and(x, {0}, t);  // here
}
