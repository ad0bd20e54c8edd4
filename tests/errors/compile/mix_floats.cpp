// says: these element types do not mix: convert one side with .to<T>(), e.g. .to<float>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
auto mistake(tw::Tile<float, 2> t, tw::Tile<tw::f16, 2> h) {
  return t + h;  // here
}
