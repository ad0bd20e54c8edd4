// says: load_at: give a std::tuple with one integer or integer tile for each axis of the view
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::View<const float, 2> a, tw::Tile<int, 1> i) {
  tw::load_at(a, std::tuple(i));  // here
}
