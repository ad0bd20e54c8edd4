// Lesson 1: a tile kernel. One program adds one block; the last block hangs over the edge and nothing has to be said
// about it. The same file runs on the CPU and on a GPU.
#include <tileweave/tileweave.h>

#include <cstdio>

namespace tw = tileweave;

const auto vector_add = tw::kernel("vector_add", [](tw::View<const float, 1> a, tw::View<const float, 1> b,
                                                    tw::View<float, 1> sum, tw::Const<int> block) {
  auto first = tw::program_id(0) * block;
  tw::store(sum, {first}, tw::load(a, {first}, {block}) + tw::load(b, {first}, {block}));
});

int main() {
  const tw::index_t n = 100'003;
  const int block = 1024;
  const tw::Device device = tw::Device::best();
  auto a = tw::random_normal<float>(device, {n}, 1);
  auto b = tw::random_normal<float>(device, {n}, 2);
  auto sum = tw::Tensor<float>::empty(device, {n});

  vector_add.launch(device.stream(), {tw::cdiv(n, block)}, a, b, sum, block);

  const auto ha = a.to_host(), hb = b.to_host(), hs = sum.to_host();
  for (std::size_t i = 0; i < hs.size(); ++i)
    if (hs[i] != ha[i] + hb[i]) return std::printf("wrong at %zu\n", i), 1;
  std::printf("01_vector_add: right on %s\n", device.name().c_str());
}
