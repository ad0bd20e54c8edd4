// says: the tile has another element type than the view: convert it with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<tw::f16, 1> y, tw::Tile<float, 1> t) {
  tw::store(y, {0}, t);  // here
}
