// The CPU peers' loops. Built apart, with -O3 -march=native -ffast-math -fopenmp and libmvec: none of it may touch our
// code. See cpu_peers.h.
#include "cpu_peers.h"

#include <algorithm>
#include <cmath>
#ifdef TILEWEAVE_ONEDNN
#include <dnnl.hpp>
#endif

void peer_copy(const float* x, float* y, std::size_t n) {
#pragma omp parallel for simd
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i];
}

void peer_add(const float* a, const float* b, float* y, std::size_t n) {
#pragma omp parallel for simd
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

static float gelu_tanh(float x) { return x * 0.5f * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }

void peer_gelu_tanh(const float* x, float* y, std::size_t n) {
#pragma omp parallel for simd
  for (std::size_t i = 0; i < n; ++i) y[i] = gelu_tanh(x[i]);
}

void peer_gelu_erf(const float* x, float* y, std::size_t n) {
#pragma omp parallel for simd
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * 0.5f * (1 + std::erf(x[i] * 0.70710678f));
}

void peer_softmax(const float* x, float* y, std::size_t rows, std::size_t cols) {
#pragma omp parallel for
  for (std::size_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    float largest = in[0];
    for (std::size_t i = 0; i < cols; ++i) largest = std::max(largest, in[i]);
    float sum = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      out[i] = std::exp(in[i] - largest);
      sum += out[i];
    }
    const float scale = 1 / sum;
    for (std::size_t i = 0; i < cols; ++i) out[i] *= scale;
  }
}

void peer_layer_norm_gelu(const float* x, const float* weight, const float* bias, float* y, std::size_t rows,
                          std::size_t cols) {
#pragma omp parallel for
  for (std::size_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float sum = 0, squares = 0;
    for (std::size_t i = 0; i < cols; ++i) sum += in[i];
    const float mean = sum / static_cast<float>(cols);
    for (std::size_t i = 0; i < cols; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const float scale = 1 / std::sqrt(squares / static_cast<float>(cols) + 1e-5f);
    for (std::size_t i = 0; i < cols; ++i) y[r * cols + i] = gelu_tanh((in[i] - mean) * scale * weight[i] + bias[i]);
  }
}

#ifdef TILEWEAVE_ONEDNN
namespace {
using dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}
memory::desc flat(std::size_t n) {
  return {{static_cast<memory::dim>(n)}, memory::data_type::f32, memory::format_tag::a};
}
memory::desc matrix(std::size_t rows, std::size_t cols) {
  return {
      {static_cast<memory::dim>(rows), static_cast<memory::dim>(cols)}, memory::data_type::f32, memory::format_tag::ab};
}
memory of(const memory::desc& d, const float* p) { return memory(d, engine(), const_cast<float*>(p)); }
}  // namespace

bool peer_has_onednn() { return true; }

void onednn_gelu(bool tanh_form, const float* x, float* y, std::size_t n) {
  const auto md = flat(n);
  const auto form = tanh_form ? dnnl::algorithm::eltwise_gelu_tanh : dnnl::algorithm::eltwise_gelu_erf;
  dnnl::eltwise_forward op({{dnnl::prop_kind::forward_inference, form, md, 0.f, 0.f}, engine()});
  dnnl::stream s(engine());
  op.execute(s, {{DNNL_ARG_SRC, of(md, x)}, {DNNL_ARG_DST, of(md, y)}});
  s.wait();
}

void onednn_softmax(const float* x, float* y, std::size_t rows, std::size_t cols) {
  const auto md = matrix(rows, cols);
  dnnl::softmax_forward op({{dnnl::prop_kind::forward_inference, md, 1}, engine()});
  dnnl::stream s(engine());
  op.execute(s, {{DNNL_ARG_SRC, of(md, x)}, {DNNL_ARG_DST, of(md, y)}});
  s.wait();
}

void onednn_layer_norm(const float* x, const float* weight, const float* bias, float* y, std::size_t rows,
                       std::size_t cols) {
  const auto md = matrix(rows, cols);
  const auto wd = flat(cols);
  using dnnl::normalization_flags;
  dnnl::layer_normalization_forward op(
      {{dnnl::prop_kind::forward_inference, md, 1e-5f, normalization_flags::use_scale | normalization_flags::use_shift},
       engine()});
  dnnl::stream s(engine());
  op.execute(s, {{DNNL_ARG_SRC, of(md, x)},
                 {DNNL_ARG_DST, of(md, y)},
                 {DNNL_ARG_SCALE, of(wd, weight)},
                 {DNNL_ARG_SHIFT, of(wd, bias)}});
  s.wait();
}
#else
bool peer_has_onednn() { return false; }
void onednn_gelu(bool, const float*, float*, std::size_t) {}
void onednn_softmax(const float*, float*, std::size_t, std::size_t) {}
void onednn_layer_norm(const float*, const float*, const float*, float*, std::size_t, std::size_t) {}
#endif
