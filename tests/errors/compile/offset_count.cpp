// says: give one offset for each axis of the view
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<const float, 2> x) {
  tw::load(x, {0}, {1, 4});  // here
}
