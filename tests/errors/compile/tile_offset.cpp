// says: an offset is a scalar: a tile of offsets needs the pointer form of tw::load
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<const float, 1> x, tw::Tile<int, 1> i) {
  tw::load(x, {i}, {4});  // here
}
