// says: static_check: the condition is known only when the kernel runs: use tw::device_assert
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Scalar<int> n) {
  tw::static_check(n > 0, "n is positive");  // here
}
