// says: sort: a scalar has no axis to sort along
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Scalar<float> a) {
  tw::sort(a, 0);  // here
}
