// says: a kernel's lambda needs a type for every parameter (no auto): make the kernel a variable template instead
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake() {
  tw::kernel("k", [](auto) {});  // here
}
