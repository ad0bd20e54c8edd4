// says: store_at: give a std::tuple with one integer or integer tile for each axis of the view
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<float, 1> a, tw::Tile<float, 1> i) {
  tw::store_at(a, std::tuple(i), i);  // here
}
