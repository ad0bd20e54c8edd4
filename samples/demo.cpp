// The main job in one program: fused kernels on the best device there is, each checked against a reference in double,
// timed, and set against the same work done as separate operations. With FILE.npy ...: the same on your own arrays.
#include <tileweave/tileweave.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace tw = tileweave;

namespace {
const auto fused_gelu = tw::fusion_group(
    "fused_gelu", [](auto x) { return x * 0.5f * (1.0f + tw::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); });

double gelu_reference(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }

// Median seconds of one call, device work included. The first call compiles and is not counted.
double seconds(tw::Device device, const std::function<void()>& call) {
  std::vector<double> all;
  call();
  device.synchronize();
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    device.synchronize();
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

struct Row {
  std::string op, shape;
  double error, bound;  // relative to max(1, |expected|)
  double fused_s, separate_s, bytes;
};

bool print(const tw::Device& device, const Row& r) {
  const bool good = r.error <= r.bound;
  std::printf("%-22s %-16s %-18.18s %9.1e %9.3f ms %8.1f GB/s %8.2fx %s\n", r.op.c_str(), r.shape.c_str(),
              device.name().c_str(), r.error, r.fused_s * 1e3, r.bytes / r.fused_s / 1e9, r.separate_s / r.fused_s,
              good ? "right" : "WRONG");
  std::fflush(stdout);
  return good;
}

double relative(double got, double expected) { return std::fabs(got - expected) / std::fmax(1.0, std::fabs(expected)); }

template <class T>
double bound() {
  return std::is_same_v<T, float> ? 1e-5 : std::is_same_v<T, tw::f16> ? 2e-3 : 2e-2;
}

template <class T>
bool show_gelu(tw::Device device, tw::index_t n) {
  auto x = tw::random_normal<T>(device, {n}, 1);
  tw::Tensor<T> y = fused_gelu(x);
  const auto hx = x.to_host(), hy = y.to_host();
  double worst = 0;
  for (std::size_t i = 0; i < hx.size(); i += 7)
    worst = std::fmax(worst, relative(float(hy[i]), gelu_reference(float(hx[i]))));
  const double fused = seconds(device, [&] { tw::Tensor<T> r = fused_gelu(x); });
  const double separate = seconds(device, [&] {  // one launch for each operation
    tw::Tensor<T> cube = x * x * x, inner = x + 0.044715f * cube, scaled = 0.7978845608f * inner, t = tw::tanh(scaled);
    tw::Tensor<T> one = 1.0f + t, half = x * 0.5f, r = half * one;
  });
  return print(device, {"fused GELU " + std::string(tw::dtype_name(tw::dtype_of<T>)), std::to_string(n), worst,
                        bound<T>(), fused, separate, 2.0 * sizeof(T) * double(n)});
}

// Weight 1 and bias 0 unless given.
template <class T>
double layer_norm_gelu_error(const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b,
                             const std::vector<T>& y, tw::index_t rows, tw::index_t cols) {
  double worst = 0;
  for (tw::index_t r = 0; r < rows; r += 1 + rows / 64) {
    const auto in = [&](tw::index_t c) { return double(float(x[static_cast<std::size_t>(r * cols + c)])); };
    double mean = 0, variance = 0;
    for (tw::index_t c = 0; c < cols; ++c) mean += in(c) / double(cols);
    for (tw::index_t c = 0; c < cols; ++c) variance += std::pow(in(c)-mean, 2) / double(cols);
    for (tw::index_t c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double n = (in(c)-mean) / std::sqrt(variance + 1e-5) * float(w[i]) + float(b[i]);
      worst = std::fmax(worst, relative(float(y[static_cast<std::size_t>(r * cols + c)]),
                                        0.5 * n * (1 + std::erf(n / std::sqrt(2.0)))));
    }
  }
  return worst;
}

template <class T>
bool show_layer_norm(tw::Device device, tw::index_t rows, tw::index_t cols) {
  auto x = tw::random_normal<T>(device, {rows, cols}, 1);
  auto w = tw::random_normal<T>(device, {cols}, 2);
  auto b = tw::random_normal<T>(device, {cols}, 3);
  auto y = tw::ops::layer_norm(x, w, b, 1e-5f, tw::ops::gelu);
  const double error = layer_norm_gelu_error(x.to_host(), w.to_host(), b.to_host(), y.to_host(), rows, cols);
  const double fused = seconds(device, [&] { auto r = tw::ops::layer_norm(x, w, b, 1e-5f, tw::ops::gelu); });
  const double separate = seconds(device, [&] {
    auto normal = tw::ops::layer_norm(x, w, b, 1e-5f);
    tw::Tensor<T> r = tw::gelu(normal);
  });
  return print(device, {"LayerNorm+GELU " + std::string(tw::dtype_name(tw::dtype_of<T>)),
                        std::to_string(rows) + "x" + std::to_string(cols), error, bound<T>(), fused, separate,
                        2.0 * sizeof(T) * double(rows * cols)});
}

bool show_softmax(tw::Device device, tw::index_t rows, tw::index_t cols) {
  auto x = tw::random_normal<float>(device, {rows, cols}, 1);
  auto y = tw::ops::softmax(x, 1);
  const auto hx = x.to_host(), hy = y.to_host();
  double worst = 0;
  for (tw::index_t r = 0; r < rows; r += 1 + rows / 64) {
    double total = 0;
    const auto at = [&](tw::index_t c) { return static_cast<std::size_t>(r * cols + c); };
    for (tw::index_t c = 0; c < cols; ++c) total += std::exp(double(hx[at(c)]));
    for (tw::index_t c = 0; c < cols; ++c)
      worst = std::fmax(worst, relative(hy[at(c)], std::exp(double(hx[at(c)])) / total));
  }
  const double fused = seconds(device, [&] { auto r = tw::ops::softmax(x, 1); });
  const double separate = seconds(device, [&] {
    auto largest = tw::ops::max(x, 1);
    tw::Tensor<float> e = tw::exp(x - largest.unsqueeze(1));
    auto total = tw::ops::sum(e, 1);
    tw::Tensor<float> r = e / total.unsqueeze(1);
  });
  return print(device, {"softmax f32", std::to_string(rows) + "x" + std::to_string(cols), worst, 1e-6, fused, separate,
                        8.0 * double(rows * cols)});
}

std::string beside(const std::string& path, const char* what) {
  const auto dot = path.rfind(".npy");
  return path.substr(0, dot) + what + ".npy";
}

template <class T>
bool run_array(const tw::Tensor<T>& x, const std::string& path) {
  tw::Tensor<T> activated = fused_gelu(x);
  activated.save_npy(beside(path, ".fused_gelu"));
  const tw::index_t cols = x.dims() == 0 ? 1 : x.extent(-1), rows = cols == 0 ? 0 : x.size() / cols;
  auto flat = x.reshape({rows, cols});
  const std::vector<T> ones(static_cast<std::size_t>(cols), T(1.0f)), zeros(static_cast<std::size_t>(cols), T(0.0f));
  auto w = tw::Tensor<T>::from_host(x.device(), {cols}, ones), b = tw::Tensor<T>::from_host(x.device(), {cols}, zeros);
  auto y = tw::ops::layer_norm(flat, w, b, 1e-5f, tw::ops::gelu);
  y.reshape(x.shape()).save_npy(beside(path, ".layer_norm_gelu"));
  const double error = layer_norm_gelu_error(flat.to_host(), ones, zeros, y.to_host(), rows, cols);
  std::printf("%s: %lld elements of %s, LayerNorm+GELU error %.1e; wrote %s and %s\n", path.c_str(),
              static_cast<long long>(x.size()), std::string(tw::dtype_name(tw::dtype_of<T>)).c_str(), error,
              beside(path, ".fused_gelu").c_str(), beside(path, ".layer_norm_gelu").c_str());
  return error <= bound<T>();
}

bool run_file(tw::Device device, const std::string& path) {
  const auto x = tw::runtime::load_npy(path, device);
  if (x.dtype() == tw::Dtype::f32) return run_array(tw::Tensor<float>(x), path);
  if (x.dtype() == tw::Dtype::f16) return run_array(tw::Tensor<tw::f16>(x), path);
  if (x.dtype() == tw::Dtype::f64) return run_array(tw::Tensor<double>(x), path);
  std::printf("%s: holds %s; LayerNorm and GELU take f16, f32 or f64: convert it, say with array.astype('float32')\n",
              path.c_str(), std::string(tw::dtype_name(x.dtype())).c_str());
  return false;
}
}  // namespace

int main(int argc, char** argv) {
  try {
    const tw::Device device = tw::Device::best();
    bool good = true;
    for (int i = 1; i < argc; ++i) good = run_file(device, argv[i]) && good;
    if (argc > 1) return good ? 0 : 1;
    // Enough work to fill a GPU; a size that a laptop does in a moment.
    const bool big = !device.is_host();
    const tw::index_t n = big ? tw::index_t{1} << 27 : tw::index_t{1} << 23, rows = big ? 16384 : 4096;
    std::printf("%-22s %-16s %-18s %9s %12s %13s %9s\n", "op", "shape", "device", "error", "time", "rate", "separate");
    good = show_gelu<float>(device, n) && good;
    good = show_gelu<tw::f16>(device, n) && good;
    good = show_softmax(device, rows, 1024) && good;
    good = show_layer_norm<float>(device, rows, 1024) && good;
    good = show_layer_norm<tw::f16>(device, rows, 1024) && good;
    good = show_layer_norm<tw::bf16>(device, rows, 1024) && good;
    std::printf("separate: the time of the same work as one launch for each operation, over the fused time\n");
    return good ? 0 : 1;
  } catch (const tw::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
