// says: a tile and a tensor do not mix: a kernel works on tiles, tensors live outside of it
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
auto mistake(const tw::Tensor<float>& x, tw::Tile<float, 1> t) {
  return x + t;  // here
}
