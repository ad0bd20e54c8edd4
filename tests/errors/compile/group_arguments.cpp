// says: the fusion group takes another number of arguments
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
const auto twice = tw::fusion_group("twice", [](auto x) { return 2 * x; });
void mistake(tw::Tile<float, 1> t) {
  twice(t, t);  // here
}
