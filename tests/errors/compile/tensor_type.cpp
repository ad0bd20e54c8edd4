// says: the expression has another element type than the tensor: convert it with .to<T>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(const tw::Tensor<float>& x) {
  tw::Tensor<tw::f16> y = x * 2.0f;  // here
}
