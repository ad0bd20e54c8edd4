// says: a function takes tw::Tile, tw::Scalar, tw::View, tw::Ptr or tw::Const parameters
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake() {
  tw::function("f", [](tw::Var<float, 1> x) { return x; });  // here
}
