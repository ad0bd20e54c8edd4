// Ten kernels as users write them, for the time that the C++ compiler takes: bench/cpp_compile_time.py compiles this
// file and an empty main. It is never run.
#include <tileweave/tileweave.h>

namespace tw = tileweave;

using In = tw::View<const float, 1>;
using Out = tw::View<float, 1>;
using Rows = tw::View<const float, 2>;
using OutRows = tw::View<float, 2>;

const auto vector_add = tw::kernel("vector_add", [](In a, In b, Out c, tw::Const<int> n) {
  auto first = tw::program_id(0) * n;
  tw::store(c, {first}, tw::load(a, {first}, {n}) + tw::load(b, {first}, {n}));
});
const auto gelu = tw::kernel("gelu", [](In x, Out y, tw::Const<int> n) {
  auto first = tw::program_id(0) * n;
  auto v = tw::load(x, {first}, {n});
  tw::store(y, {first}, 0.5f * v * (1.0f + tw::tanh(0.7978845608f * (v + 0.044715f * v * v * v))));
});
const auto softmax = tw::kernel("softmax", [](Rows x, OutRows y, tw::Const<int> n) {
  auto row = tw::program_id(0);
  auto v = tw::load(x, {row, 0}, {1, n});
  auto e = tw::exp(v - tw::max(v, 1, tw::keep_dims));
  tw::store(y, {row, 0}, e / tw::sum(e, 1, tw::keep_dims));
});
const auto layer_norm =
    tw::kernel("layer_norm", [](Rows x, In w, In b, OutRows y, tw::Scalar<float> eps, tw::Const<int> n) {
      auto row = tw::program_id(0);
      auto v = tw::load(x, {row, 0}, {1, n});
      auto count = x.extent(1).to<float>();
      auto d = v - tw::sum(v, 1, tw::keep_dims) / count;
      auto scale = tw::rsqrt(tw::sum(d * d, 1, tw::keep_dims) / count + eps);
      tw::store(y, {row, 0}, d * scale * tw::load(w, {0}, {n}) + tw::load(b, {0}, {n}));
    });
const auto matmul =
    tw::kernel("matmul", [](Rows a, Rows b, OutRows c, tw::Const<int> m, tw::Const<int> n, tw::Const<int> k) {
      auto row = tw::program_id(0) * m, col = tw::program_id(1) * n;
      tw::Var sum = tw::zeros<float>(m, n);
      for (auto i : tw::range(0, a.extent(1), k)) {
        sum = tw::dot(tw::load(a, {row, i}, {m, k}), tw::load(b, {i, col}, {k, n}), sum);
      }
      tw::store(c, {row, col}, sum);
    });
const auto row_sums = tw::kernel("row_sums", [](Rows x, Out y, tw::Const<int> n) {
  auto row = tw::program_id(0);
  tw::Var sum = tw::zeros<float>(1, n);
  for (auto c : tw::range(0, x.extent(1), n)) sum += tw::load(x, {row, c}, {1, n});
  tw::store(y, {row}, tw::sum(sum, 1));
});
const auto gather = tw::kernel("gather", [](In table, tw::View<const int, 1> index, Out y, tw::Const<int> n) {
  auto first = tw::program_id(0) * n;
  auto i = tw::load(index, {first}, {n});
  tw::store(y, {first}, tw::load(table.ptr() + i, {.pad = 0, .mask = (i >= 0) & (i < table.extent(0))}));
});
const auto histogram = tw::kernel("histogram", [](tw::View<const int, 1> x, tw::View<int, 1> counts, tw::Const<int> n) {
  auto first = tw::program_id(0) * n;
  tw::atomic_add(counts, {0}, tw::histogram(tw::load(x, {first}, {n}), 64));
});
const auto dropout =
    tw::kernel("dropout", [](In x, Out y, tw::Scalar<float> keep, tw::Scalar<std::uint64_t> seed, tw::Const<int> n) {
      auto first = tw::program_id(0) * n;
      auto v = tw::load(x, {first}, {n});
      auto chance = tw::rand(seed, first + tw::arange<std::int64_t>(n));
      tw::store(y, {first}, tw::where(chance < keep, v / keep, 0.0f));
    });
const auto newton = tw::kernel("newton", [](In x, Out y, tw::Const<int> n) {
  auto first = tw::program_id(0) * n;
  auto v = tw::load(x, {first}, {n});
  tw::Var guess = tw::maximum(v, 1.0f);
  tw::Var step = tw::full<int>(0);
  tw::while_([&] { return tw::any(tw::abs(guess * guess - v) > 1e-4f * v, 0) & (step < 32); },
             [&] {
               guess = 0.5f * (guess + v / guess);
               step += 1;
             });
  tw::if_(tw::all(tw::is_finite(guess), 0), [&] { tw::store(y, {first}, guess); });
});

int main() {
  const tw::Device device = tw::Device::best();
  const auto stream = device.stream();
  const auto a = tw::Tensor<float>::zeros(device, {64}), b = tw::Tensor<float>::zeros(device, {64});
  const auto x = tw::Tensor<float>::zeros(device, {64, 64}), y = tw::Tensor<float>::zeros(device, {64, 64});
  const auto i = tw::Tensor<int>::zeros(device, {64});
  vector_add.launch(stream, {1}, a, b, b, 64);
  gelu.launch(stream, {1}, a, b, 64);
  softmax.launch(stream, {64}, x, y, 64);
  layer_norm.launch(stream, {64}, x, a, b, y, 1e-5f, 64);
  matmul.launch(stream, {4, 4}, x, x, y, 16, 16, 16);
  row_sums.launch(stream, {64}, x, a, 32);
  gather.launch(stream, {1}, a, i, b, 64);
  histogram.launch(stream, {1}, i, i, 64);
  dropout.launch(stream, {1}, a, b, 0.9f, 7, 64);
  newton.launch(stream, {1}, a, b, 64);
}
