// says: sum: a scalar has no axis to reduce
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Scalar<float> t) {
  tw::sum(t, 0);  // here
}
