// says: wrap: the memory is const, and a tensor can be written: copy it with tw::Tensor<T>::from_host
// A mistake that both compilers refuse at the marked line; see check_compile.py.
#include <tileweave/tileweave.h>
namespace tw = tileweave;
#include <vector>
void mistake(const std::vector<float>& v) {
  tw::wrap(v, tw::Device::cpu());  // here
}
