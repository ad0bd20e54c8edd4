// says: this operation is for integer elements: convert with .to<int>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
auto mistake(tw::Scalar<float> x) {
  return x << 1;  // here
}
