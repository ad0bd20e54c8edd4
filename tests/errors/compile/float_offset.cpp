// says: an offset is an integer: convert it with .to<tw::index_t>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<const float, 2> x, tw::Scalar<float> f) {
  tw::load(x, {f, 0}, {1, 4});  // here
}
