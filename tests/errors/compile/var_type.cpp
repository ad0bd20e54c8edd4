// says: the element type of a tw::Var is fixed: convert the value with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Var<float, 1>& v, tw::Tile<tw::f16, 1> t) {
  v = t;  // here
}
