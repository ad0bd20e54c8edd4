// says: a symbolic value has no C++ truth value
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
int mistake(tw::Scalar<int> n) {
  return n < 3 ? 1 : 2;  // here
}
