// says: dot: f16, bf16 and fp8 accumulate in float, 8-bit integers in int, others in their own type: convert the accumulator with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(tw::Tile<tw::f16, 2> a, tw::Tile<tw::f16, 2> b, tw::Tile<tw::f16, 2> acc) {
  tw::dot(a, b, acc);  // here
}
