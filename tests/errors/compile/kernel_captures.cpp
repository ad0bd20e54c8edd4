// says: a kernel's lambda captures nothing: pass the value as a tw::Const or tw::Scalar parameter
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(int c) {
  tw::kernel("k", [c](tw::Scalar<int>) { (void)c; });  // here
}
