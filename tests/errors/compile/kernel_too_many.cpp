// says: too many kernel parameters: they take at most 500 slots of 8 bytes, a view of rank R takes 1 + 2R
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
template <int>
using V = tw::View<const float, 5>;
template <int... I>
auto make(std::integer_sequence<int, I...>) {
  return [](V<I>...) {};
}
void mistake() {
  tw::kernel("k", make(std::make_integer_sequence<int, 46>()));  // here
}
