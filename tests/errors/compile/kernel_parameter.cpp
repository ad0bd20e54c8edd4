// says: a kernel's lambda returns void and takes tw::View, tw::Ptr, tw::Scalar, tw::Specialized or tw::Const parameters
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake() {
  tw::kernel("k", [](int) {});  // here
}
