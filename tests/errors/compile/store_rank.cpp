// says: the tile has a higher rank than the view: reduce or reshape it
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<float, 1> y, tw::Tile<float, 2> t) {
  tw::store(y, {0}, t);  // here
}
