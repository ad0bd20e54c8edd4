// says: the function's parameter is a tw::View or tw::Ptr of another element type, rank or constness
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
const auto clear = tw::function("clear", [](tw::View<float, 1> y) { tw::store(y, {0}, tw::zeros<float>(8)); });
void mistake(tw::View<const float, 1> x) {
  clear(x);  // here
}
