// says: && and || do not work on symbolic values: use & and |
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
auto mistake(tw::Scalar<int> n) {
  return n > 3 && n < 5;  // here
}
