// says: rand: the offsets are an integer tile, a number for each lane (tw::arange)
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> t) {
  tw::rand(1, t);  // here
}
