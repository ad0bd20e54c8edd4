// says: atomic_add writes: declare the parameter without const
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<const float, 1> x, tw::Tile<float, 1> t) {
  tw::atomic_add(x, {0}, t);  // here
}
