// says: wrong number of arguments: give one for each parameter of the function's lambda
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
const auto twice = tw::function("twice", [](tw::Tile<float, 1> x) { return x * 2.0f; });
void mistake(tw::Tile<float, 1> x) {
  twice(x, x, x);  // here
}
