// says: the argument has another element type than the function's parameter: convert it with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
const auto twice = tw::function("twice", [](tw::Tile<float, 1> x) { return x * 2.0f; });
void mistake(tw::Tile<int, 1> n) {
  twice(n);  // here
}
