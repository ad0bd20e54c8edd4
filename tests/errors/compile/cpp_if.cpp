// says: a symbolic value has no C++ truth value: use tw::where for each lane, tw::if_ or tw::while_ for control flow
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Scalar<int> n) {
  if (n > 3) tw::program_id(0);  // here
}
