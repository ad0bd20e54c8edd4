// says: round_to: from a wider to a narrower float; other conversions are .to<T>() and tw::saturate
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<tw::f16, 1> a) {
  tw::round_to<float>(a, tw::Rounding::down);  // here
}
