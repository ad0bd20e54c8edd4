// says: a bool is no number: use tw::where(condition, a, b), or .to<int>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
auto mistake(tw::Tile<float, 1> x) {
  return (x > 0) + (x < 1);  // here
}
