// says: reduce: the combining function takes two scalars and gives one of the tile's element type: convert with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<int, 1> a) {
  tw::reduce(a, 0, [](auto x) { return x; });  // here
}
