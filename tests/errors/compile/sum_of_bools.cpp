// says: numbers are summed and compared, bools go to tw::any and tw::all: convert with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> t) {
  tw::sum(t > 0, 0);  // here
}
