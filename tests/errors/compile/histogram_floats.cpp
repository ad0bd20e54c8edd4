// says: histogram: the values are integers: convert with .to<int>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> a) {
  tw::histogram(a, 10);  // here
}
