// says: a tensor is expected for a tw::View or tw::Ptr parameter
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
const auto k = tw::kernel("k", [](tw::View<const float, 2>, tw::View<float, 1>, tw::Scalar<int>, tw::Const<int>) {});
void mistake(tw::Stream s, tw::Tensor<float> x, tw::Tensor<tw::f16> h) {
  (void)h;
  k.launch(s, {1}, x, 3, 3, 64);  // here
}
