// says: these element types do not mix: convert one side with .to<T>(), e.g. .to<float>()
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
void mistake(const tw::Tensor<float>& x, const tw::Tensor<tw::f16>& h) {
  tw::Tensor<float> y = x + h;  // here
}
