// says: a fusion group captures nothing: pass the value as an argument
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(float c) {
  tw::fusion_group("g", [c](auto x) { return x * c; });  // here
}
