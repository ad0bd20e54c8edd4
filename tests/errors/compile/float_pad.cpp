// says: a floating-point pad for an integer tile: use tw::lowest<T>, tw::highest<T> or an integer
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<const int, 1> x) {
  tw::load(x, {0}, {4}, {.pad = 0.5f});  // here
}
