// says: this operation is for floating-point elements: convert with .to<float>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Scalar<int> n) {
  tw::exp(n);  // here
}
