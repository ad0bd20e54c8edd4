// says: device_assert: the condition is a bool tile or scalar: compare the value
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> t) {
  tw::device_assert(t, "positive");  // here
}
