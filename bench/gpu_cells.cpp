// The memory-bound kernels that gpu_memory_bound.py times beside their peers: one C function on memory and a stream of
// the caller's. A library of its own, so that all contestants run in one process, in turn, on the same inputs.
#include <tileweave/tileweave.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

namespace tw = tileweave;

namespace plain {
TILEWEAVE_FUSION_GROUP float gelu(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}
}  // namespace plain

#include "gpu_cells.fusion.h"

namespace {

const auto written = tw::fusion_group(
    "written", [](auto x) { return 0.5f * x * (1.0f + tw::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); });
using Decorated = std::remove_cvref_t<decltype(tw::fused::plain::gelu)>;
using Written = std::remove_cvref_t<decltype(written)>;
using Gelu = std::remove_cvref_t<decltype(tw::ops::gelu)>;
using Identity = std::remove_cvref_t<decltype(tw::ops::identity)>;
constexpr int block_of_flat = 1024;

template <class T>
const auto add_flat =
    tw::kernel("add", [](tw::View<const T, 1> a, tw::View<const T, 1> b, tw::View<T, 1> c, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      tw::store(c, {first}, tw::load(a, {first}, {block}) + tw::load(b, {first}, {block}));
    });

template <class T>
const auto gelu_flat =
    tw::kernel("gelu", [](tw::View<const T, 1> x, tw::View<T, 1> y, tw::Const<bool> tanh_form, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      auto v = tw::load(x, {first}, {block});
      if (tanh_form) {
        tw::store(y, {first}, tw::gelu_tanh(v));
      } else {
        tw::store(y, {first}, tw::gelu(v));
      }
    });

// A composite as a user writes it, or through the decorator.
template <class T, class G>
const auto group_flat = tw::kernel("group", [](tw::View<const T, 1> x, tw::View<T, 1> y, tw::Const<int> block) {
  auto first = tw::program_id(0) * block;
  tw::store(y, {first}, G{}(tw::load(x, {first}, {block}).template to<float>()).template to<T>());
});

// gelu(x) and gelu'(x) * dy in one launch: two operands read, two written.
template <class T>
const auto gelu_both = tw::kernel("gelu_both", [](tw::View<const T, 1> x, tw::View<const T, 1> dy, tw::View<T, 1> y,
                                                  tw::View<T, 1> dx, tw::Const<int> block) {
  auto first = tw::program_id(0) * block;
  auto v = tw::load(x, {first}, {block}).template to<float>();
  auto [value, slope] = tw::value_and_grad(tw::ops::gelu)(v);
  tw::store(y, {first}, value.template to<T>());
  tw::store(dx, {first}, (slope * tw::load(dy, {first}, {block}).template to<float>()).template to<T>());
});

const auto dequantise = tw::kernel("dequantise", [](tw::View<const std::int8_t, 2> q, tw::View<const float, 1> scale,
                                                    tw::View<tw::f16, 2> y, tw::Const<int> block) {
  auto row = tw::program_id(0);
  auto at = tw::program_id(1) * block;
  auto s = tw::expand(tw::load(scale, {row}, {1}), 1);
  tw::store(y, {row, at}, (tw::load(q, {row, at}, {1, block}).to<float>() * s).to<tw::f16>());
});

struct Call {
  tw::Stream stream;
  tw::Device device;
  std::string op;
  void* const* at;  // the buffers, in the order of the op's operands, outputs last
  tw::index_t r, c;

  template <class T>
  tw::Tensor<T> flat(int i) const {
    return tw::wrap(static_cast<T*>(at[i]), {r}, {1}, device);
  }
  template <class T>
  tw::Tensor<T> row(int i) const {
    return tw::wrap(static_cast<T*>(at[i]), {c}, {1}, device);
  }
  template <class T>
  tw::Tensor<T> matrix(int i, tw::index_t pitch = 0) const {
    return tw::wrap(static_cast<T*>(at[i]), {r, c}, {pitch == 0 ? c : pitch, 1}, device);
  }
};

template <class T>
bool flat(const Call& k) {
  const tw::index_t grid = tw::cdiv(k.r, block_of_flat);
  const auto group = [&](const auto& kernel) {
    kernel.launch(k.stream, {grid}, k.flat<T>(0), k.flat<T>(1), block_of_flat);
    return true;
  };
  if (k.op == "add") {
    add_flat<T>.launch(k.stream, {grid}, k.flat<T>(0), k.flat<T>(1), k.flat<T>(2), block_of_flat);
  } else if (k.op == "gelu exact" || k.op == "gelu tanh") {
    gelu_flat<T>.launch(k.stream, {grid}, k.flat<T>(0), k.flat<T>(1), k.op == "gelu tanh", block_of_flat);
  } else if (k.op == "gelu forward+backward") {
    gelu_both<T>.launch(k.stream, {grid}, k.flat<T>(0), k.flat<T>(1), k.flat<T>(2), k.flat<T>(3), block_of_flat);
  } else if (k.op == "fused gelu") {
    return group(group_flat<T, Written>);
  } else if (k.op == "decorated gelu") {
    return group(group_flat<T, Decorated>);
  } else {
    return false;
  }
  return true;
}

template <class T>
bool rows(const Call& k) {
  namespace ops = tw::ops;
  const auto plan = ops::plan_row(k.c);
  const auto norm = [&](const auto& kernel) {
    kernel.launch(k.stream, {k.r}, k.matrix<T>(0), k.row<T>(1), k.row<T>(2), k.matrix<T>(3), 1e-5f, plan);
    return true;
  };
  if (k.op == "softmax") {
    ops::detail::softmax_rows<T, Identity>.launch(k.stream, {k.r}, k.matrix<T>(0), k.matrix<T>(1), plan);
    return true;
  }
  if (k.op == "RMSNorm") {
    ops::detail::rms_norm_kernel<T, Identity>.launch(k.stream, {k.r}, k.matrix<T>(0), k.row<T>(1), k.matrix<T>(2),
                                                     1e-5f, plan);
    return true;
  }
  if (k.op == "LayerNorm") return norm(ops::detail::layer_norm_kernel<T, Identity>);
  if (k.op == "LayerNorm+GELU") return norm(ops::detail::layer_norm_kernel<T, Gelu>);
  return false;
}

template <class T>
bool strided(const Call& k) {
  if (k.op == "x^T + y") {
    k.matrix<T>(2).assign(k.matrix<T>(0).transpose() + k.matrix<T>(1), k.stream);
  } else if (k.op == "sliced add") {  // rows of a matrix that is 64 columns wider
    k.matrix<T>(2).assign(k.matrix<T>(0, k.c + 64) + k.matrix<T>(1), k.stream);
  } else if (k.op == "broadcast add") {
    k.matrix<T>(2).assign(k.matrix<T>(0) + k.row<T>(1), k.stream);
  } else if (k.op == "NCHW to NHWC, + 1") {
    const auto image = tw::wrap(static_cast<T*>(k.at[0]), {64, 256, 56, 56}, {256 * 56 * 56, 56 * 56, 56, 1}, k.device);
    const auto out = tw::wrap(static_cast<T*>(k.at[1]), {64, 56, 56, 256}, {256 * 56 * 56, 256 * 56, 256, 1}, k.device);
    out.assign(image.permute({0, 2, 3, 1}) + T(1.0f), k.stream);
  } else {
    return false;
  }
  return true;
}

template <class T>
bool run(const Call& k) {
  return flat<T>(k) || rows<T>(k) || strided<T>(k);
}

bool run_dequantise(const Call& k) {
  constexpr int block = 2048;
  dequantise.launch(k.stream, {k.r, tw::cdiv(k.c, block)}, k.matrix<std::int8_t>(0),
                    tw::wrap(static_cast<float*>(k.at[1]), {k.r}, {1}, k.device), k.matrix<tw::f16>(2), block);
  return true;
}

}  // namespace

// Runs `op` on `stream`. dtype: f16, bf16 or f32. buffers: the operands, outputs last; flat ops have `r` elements,
// others `r` rows of `c`. Null, or what went wrong; the text lives until the thread's next call.
extern "C" [[gnu::visibility("default")]] const char* tileweave_cell(void* stream, const char* op, const char* dtype,
                                                                     void* const* buffers, std::int64_t r,
                                                                     std::int64_t c) {
  thread_local std::string text;
  try {
    const tw::Device device = tw::Device::cuda(0);
    const Call k{tw::Stream::wrap(stream, device), device, op, buffers, r, c};
    const std::string type = dtype;
    const bool is_known = k.op == "dequantise" ? run_dequantise(k)
                          : type == "f16"      ? run<tw::f16>(k)
                          : type == "bf16"     ? run<tw::bf16>(k)
                                               : run<float>(k);
    if (is_known) return nullptr;
    text = "no op named " + k.op;
    return text.c_str();
  } catch (const std::exception& e) {
    text = e.what();
    return text.c_str();
  }
}
