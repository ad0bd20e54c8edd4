// says: a function returns nothing, a tile, or a std::tuple of tiles
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake() {
  tw::function("f", [](tw::Tile<float, 1>) { return 1; });  // here
}
