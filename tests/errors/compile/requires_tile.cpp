// says: requires_: the condition is a scalar bool of extents, strides and arguments: compare something
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> a) {
  tw::requires_(a > 0);  // here
}
