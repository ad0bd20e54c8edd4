// says: a function captures nothing: pass the value as an argument
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(int c) {
  tw::function("f", [c](tw::Tile<float, 1> x) { return x * static_cast<float>(c); });  // here
}
