// Applies a group to arrays on the device that TILEWEAVE_DEVICE names, in precise mode: one kernel, contraction off.
#pragma once

#include <tileweave/tileweave.h>

#include <cstring>
#include <vector>

namespace tw = tileweave;

namespace on_device {

inline tw::Device device() {
  static const tw::Device d = tw::Device::best();
  return d;
}

template <class R, class G, class... P>
inline const auto kernel = tw::kernel("group", [](tw::View<const P, 1>... x, tw::View<R, 1> y, tw::Const<int> block) {
  const auto i = tw::program_id(0) * block;
  tw::store(y, {i}, G{}(tw::load(x, {i}, {block})...));
});

template <class R, class G, class... P>
std::vector<R> apply(const G&, const std::vector<P>&... x) {
  const auto n = static_cast<tw::index_t>(std::get<0>(std::tie(x...)).size());
  const auto y = tw::Tensor<R>::empty(device(), {n});
  const int block = 64;
  kernel<R, G, P...>.launch(device().stream(), {tw::cdiv(n, block)},
                            tw::Tensor<P>::from_host(device(), {n}, std::span<const P>(x))..., y, block,
                            tw::Options{.contract = false});
  return y.to_host();
}

// Equal bits; any NaN for a NaN.
template <class T>
bool same(T a, T b) {
  if (a != a && b != b) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace on_device
