// says: the condition of tw::where is a bool: compare first
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> x) {
  tw::where(x, x, 0);  // here
}
