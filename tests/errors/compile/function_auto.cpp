// says: a function's lambda needs a type for every parameter (no auto): a composite of element-wise operations is a tw::fusion_group
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake() {
  tw::function("f", [](auto x) { return x; });  // here
}
