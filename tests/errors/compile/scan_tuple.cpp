// says: scan: the combining function takes two std::tuples of scalars and gives one, of the tiles' element types: convert with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<int, 1> a) {
  tw::scan(std::tuple(a, a), 0, [](auto x, auto) { return std::get<0>(x); });  // here
}
