// says: the rank of a tw::Var is fixed: reduce or reshape the value
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Var<float, 1>& v, tw::Tile<float, 2> t) {
  v = t;  // here
}
