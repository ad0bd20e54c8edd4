// says: slice: give one start and one extent for each axis
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 2> a) {
  tw::slice(a, {0}, {4});  // here
}
