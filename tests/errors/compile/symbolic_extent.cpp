// says: the extents of a tile are constants: pass a number or a tw::Const<int> parameter
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<const float, 1> x, tw::Scalar<int> n) {
  tw::load(x, {0}, {n});  // here
}
