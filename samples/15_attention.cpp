// Lesson 15: attention in one kernel: two products with a softmax between them, over blocks of keys. Lanes past the end
// are invalid, so that max and sum leave them out. On a GPU both products run on tensor cores, keys and values are
// copied ahead of the loop, and the scores never leave registers.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace tw = tileweave;

struct Blocks {
  tw::index_t queries, keys, depth;
};

// out[h] = softmax(q[h] . k[h]^T * scale) . v[h]
const auto attention =
    tw::kernel("attention", [](tw::View<const tw::f16, 3> q, tw::View<const tw::f16, 3> k, tw::View<const tw::f16, 3> v,
                               tw::View<tw::f16, 3> out, tw::Scalar<float> scale, tw::Const<Blocks> block) {
      const auto [queries, keys, depth] = *block;
      auto row = tw::program_id(0) * queries;
      auto head = tw::program_id(1);
      auto x = tw::reshape(tw::load(q, {head, row, 0}, {1, queries, depth}), {queries, depth});
      tw::Var top = tw::full<float>(-1e30f, queries, 1);
      tw::Var norm = tw::zeros<float>(queries, 1);
      tw::Var sum = tw::zeros<float>(queries, depth);
      for (auto at : tw::range(0, k.extent(1), keys)) {
        auto y = tw::reshape(tw::load(k, {head, at, 0}, {1, keys, depth}), {keys, depth});
        auto w = tw::reshape(tw::load(v, {head, at, 0}, {1, keys, depth}), {keys, depth});
        auto exists = tw::expand(at + tw::arange(keys), 0) < k.extent(1);
        auto scores = tw::where(exists, tw::dot(x, tw::trans(y)) * scale, -1e30f);
        auto now = tw::maximum(top, tw::max(scores, 1, tw::keep_dims));
        auto p = tw::exp(scores - now);
        auto shrink = tw::exp(top - now);
        norm = norm * shrink + tw::sum(p, 1, tw::keep_dims);
        sum = tw::dot(p.to<tw::f16>(), w, sum * shrink);
        top = now;
      }
      tw::store(out, {head, row, 0}, tw::reshape((sum / norm).to<tw::f16>(), {1, queries, depth}));
    });

double worst_error(const std::vector<tw::f16>& q, const std::vector<tw::f16>& k, const std::vector<tw::f16>& v,
                   const std::vector<tw::f16>& out, std::size_t length, std::size_t depth, double scale) {
  double worst = 0;
  for (std::size_t row = 0; row < out.size() / depth; row += 13) {
    const std::size_t first = row / length * length;  // of the head's keys
    std::vector<double> weights(length), expected(depth);
    double total = 0;
    for (std::size_t j = 0; j < length; ++j) {
      double s = 0;
      for (std::size_t d = 0; d < depth; ++d)
        s += double(float(q[row * depth + d])) * double(float(k[(first + j) * depth + d]));
      total += weights[j] = std::exp(s * scale);
    }
    for (std::size_t d = 0; d < depth; ++d) {
      for (std::size_t j = 0; j < length; ++j)
        expected[d] += weights[j] / total * double(float(v[(first + j) * depth + d]));
      worst = std::fmax(worst, std::fabs(double(float(out[row * depth + d])) - expected[d]));
    }
  }
  return worst;
}

int main() {
  const tw::index_t heads = 3, length = 200, depth = 64;
  const tw::Device device = tw::Device::best();
  auto q = tw::random_normal<tw::f16>(device, {heads, length, depth}, 1);
  auto k = tw::random_normal<tw::f16>(device, {heads, length, depth}, 2);
  auto v = tw::random_normal<tw::f16>(device, {heads, length, depth}, 3);
  auto out = tw::Tensor<tw::f16>::empty(device, {heads, length, depth});

  const Blocks block{.queries = 64, .keys = 64, .depth = depth};
  attention.launch(device.stream(), {tw::cdiv(length, block.queries), heads}, q, k, v, out, 0.125f, block,
                   tw::Options{.warps = 4});

  const double worst = worst_error(q.to_host(), k.to_host(), v.to_host(), out.to_host(), length, depth, 0.125);
  std::printf("15_attention: max error %.1e on %s\n", worst, device.name().c_str());
  return worst < 2e-3 ? 0 : 1;
}
