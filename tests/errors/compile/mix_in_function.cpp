// says: these element types do not mix: convert one side with .to<T>(), e.g. .to<float>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<float, 1> t, tw::Tile<int, 1> i) {
  tw::maximum(t, i);  // here
}
