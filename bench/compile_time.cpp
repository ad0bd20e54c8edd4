// How long the compiler takes: recording, the IR passes, PTX for sm_90a and an object for this CPU, for each kernel of
// the samples; and how that grows with the length of a kernel. LLVM is loaded before the clock starts.
// `./dev bench` runs it; the tables go to bench/RESULTS.md.
#include <tileweave/tileweave.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/compile.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/function.h"
#include "timing.h"

namespace tw = tileweave;
namespace ir = tileweave::ir;
namespace codegen = tileweave::codegen;

namespace {

// Processor time of this process: what the compiler costs on a machine that does other things too. One thread compiles.
double milliseconds(const std::function<void()>& f) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
  };
  std::vector<double> all;
  for (int i = 0; i < 7; ++i) {
    const double start = now();
    f();
    all.push_back(now() - start);
  }
  return tw::bench::median(all);
}

// What a launch with contiguous, aligned tensors would state.
void set_facts(ir::Function& f) {
  for (ir::Param& p : f.params) {
    if (!p.value->type.is_view()) continue;
    const int last = p.value->type.rank - 1;
    p.facts.unit_stride = static_cast<std::uint8_t>(1u << last);
    p.facts.aligned_stride = static_cast<std::uint8_t>((1u << last) - 1);
    p.facts.aligned_base = p.facts.offsets_fit_32 = true;
  }
}

ir::Function with_facts(const std::string& text) {
  ir::Function f = ir::parse(text);
  set_facts(f);
  return f;
}

void compile_to(const ir::Function& recorded, const codegen::Target& t) {
  ir::Function f = recorded.clone();
  const bool gpu = t.kind == codegen::Target::Kind::nvptx;
  tw::jit::run_pipeline(f, {}, gpu ? tw::jit::Backend::gpu : tw::jit::Backend::any);
  if (gpu) {
    codegen::compile_to_text(f, t, codegen::Emit::assembly);
  } else {
    codegen::compile_to_binary(f, t);
  }
}

void measure(const char* name, const std::function<std::string()>& record) {
  const ir::Function f = with_facts(record());
  const codegen::Target gpu = codegen::parse_target("sm_90a"), cpu = codegen::parse_target(codegen::host_target());
  const double recording = milliseconds([&] { record(); });
  const double passes = milliseconds([&] {
    ir::Function g = f.clone();
    tw::jit::run_pipeline(g);
  });
  const double ptx = milliseconds([&] { compile_to(f, gpu); });
  const double object = milliseconds([&] { compile_to(f, cpu); });
  std::printf("| %-24s | %9.3f | %9.3f | %8.1f | %8.1f |\n", name, recording, passes, ptx, object);
}

const auto add_kernel = tw::kernel(
    "add", [](tw::View<const float, 1> a, tw::View<const float, 1> b, tw::View<float, 1> c, tw::Const<int> block) {
      auto first = tw::program_id(0) * block;
      tw::store(c, {first}, tw::load(a, {first}, {block}) + tw::load(b, {first}, {block}));
    });

const auto gelu_kernel = tw::kernel("gelu", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> block) {
  auto first = tw::program_id(0) * block;
  tw::store(y, {first}, tw::gelu(tw::load(x, {first}, {block})));
});

const auto softmax_kernel =
    tw::kernel("softmax", [](tw::View<const float, 2> x, tw::View<float, 2> y, tw::Const<int> block) {
      auto row = tw::program_id(0);
      auto v = tw::load(x, {row, 0}, {1, block});
      tw::Tile<float, 2> e = tw::exp(v - tw::max(v, 1, tw::keep_dims));
      tw::store(y, {row, 0}, e / tw::sum(e, 1, tw::keep_dims));
    });

const auto row_norm_kernel =
    tw::kernel("row_norm", [](tw::View<const float, 2> x, tw::View<float, 1> norm, tw::Const<int> block) {
      auto row = tw::program_id(0);
      tw::Var squares = tw::zeros<float>(1, block);
      for (auto c : tw::range(0, x.extent(1), block)) {
        auto v = tw::load(x, {row, c}, {1, block});
        squares += v * v;
      }
      tw::store(norm, {row}, tw::sqrt(tw::sum(squares, 1)));
    });

template <class T>
tw::Tensor<T> empty(const tw::Shape& shape) {
  return tw::Tensor<T>::empty(tw::Device::cpu(), shape);
}

template <class T>
std::string record_layer_norm_gelu() {
  const auto x = empty<T>({64, 1024}), y = empty<T>({64, 1024}), w = empty<T>({1024}), b = empty<T>({1024});
  const auto& kernel = tw::ops::detail::layer_norm_kernel<T, std::remove_cvref_t<decltype(tw::ops::gelu)>>;
  return kernel.record_text(x, w, b, y, 1e-5f, tw::ops::plan_row(1024));
}

void measure_samples() {
  std::printf("| kernel | recording, ms | passes, ms | PTX, ms | CPU object, ms |\n|---|---|---|---|---|\n");
  const auto a = empty<float>({4096}), b = empty<float>({4096}), c = empty<float>({4096});
  const auto x = empty<float>({64, 1024}), y = empty<float>({64, 1024}), n = empty<float>({64});
  measure("vector add", [&] { return add_kernel.record_text(a, b, c, 1024); });
  measure("gelu", [&] { return gelu_kernel.record_text(a, c, 1024); });
  measure("softmax", [&] { return softmax_kernel.record_text(x, y, 1024); });
  measure("loop over a row", [&] { return row_norm_kernel.record_text(x, n, 512); });
  measure("LayerNorm+GELU f32", record_layer_norm_gelu<float>);
  measure("LayerNorm+GELU f16", record_layer_norm_gelu<tw::f16>);
  measure("LayerNorm+GELU bf16", record_layer_norm_gelu<tw::bf16>);
}

// The next operation of a long kernel on its running value; `x` keeps the chain from being folded, and each one is
// used.
ir::Value* next_operation(ir::Builder& b, int i, ir::Value* v, ir::Value* x) {
  using ir::OpId;
  ir::Value* c = b.constant(v->type, 1.0 + i % 61 * 0.001953125);
  switch (i % 8) {
    case 0:
      return b.elementwise(OpId::mul, {v, c});
    case 1:
      return b.elementwise(OpId::add, {v, x});
    case 2:
      return b.elementwise(OpId::maximum, {v, c});
    case 3:
      return b.elementwise(OpId::sub, {x, v});
    case 4:
      return b.elementwise(OpId::fma, {v, c, x});
    case 5:
      return b.elementwise(OpId::minimum, {v, c});
    case 6:
      return b.elementwise(OpId::abs, {v});
    default:
      return b.elementwise(OpId::div, {v, c});
  }
}

// A kernel of `length` operations on a block of 8 x 512, each of which the result hangs on. With `rows` every fortieth
// is a reduction of the rows and its broadcast, as in a chain of norms.
ir::Function long_kernel(int length, bool rows) {
  ir::Function f("long");
  ir::Builder b(f);
  ir::Value* x = f.add_param(ir::Type::view(tw::Dtype::f32, 2, true), "x");
  ir::Value* y = f.add_param(ir::Type::view(tw::Dtype::f32, 2, false), "y");
  const std::array<ir::Value*, 2> at{b.index(0), b.index(0)};
  const std::array<std::int64_t, 2> extents{8, 512};
  ir::Value* const start = b.load(x, at, extents, nullptr, 0);
  ir::Value* v = start;
  for (int i = 0; i < length; ++i) {
    if (rows && i % 40 == 39) {
      v = b.broadcast(b.expand_dims(b.reduce(v, 1, ir::Combine::max, nullptr), 1), extents);
      v = b.elementwise(ir::OpId::sub, {start, v});
    } else {
      v = next_operation(b, i, v, start);
    }
  }
  b.store(y, at, v, nullptr);
  set_facts(f);
  return f;
}

// `calls` calls of one function of 20 operations.
ir::Function calling_kernel(int calls) {
  const std::string tile = "f32[8,512]";
  std::string text = "func \"step\"(%0: " + tile + ", %1: " + tile + ") {\n";
  for (int i = 0; i < 20; ++i) {
    const std::string at = std::to_string(i + 2), before = i == 0 ? "0" : std::to_string(i + 1);
    text += "  %" + at + (i % 2 == 0 ? " = mul %" : " = sub %") + before + ", %1 : " + tile + "\n";
  }
  text +=
      "  yield %21\n}\nfunc \"calling\"(%x: view<const f32, 2>, %y: view<f32, 2>) {\n"
      "  %z = constant {value = 0} : i64\n  %0 = load %x, %z, %z {extents = [8, 512], pad = 0} : " +
      tile + "\n";
  for (int i = 1; i <= calls; ++i) {
    text += "  %" + std::to_string(i) + " = call %" + std::to_string(i - 1) + ", %0 {name = step} : " + tile + "\n";
  }
  return with_facts(text + "  store %y, %z, %z, %" + std::to_string(calls) + "\n}\n");
}

template <class Make>
void measure_growth(const char* what, const std::vector<int>& lengths, const Make& make) {
  std::printf("\n| %s | making the IR, ms | PTX, ms | CPU object, ms |\n|---|---|---|---|\n", what);
  const codegen::Target gpu = codegen::parse_target("sm_90a"), cpu = codegen::parse_target(codegen::host_target());
  for (const int length : lengths) {
    const ir::Function f = make(length);
    std::printf("| %d | %.1f | %.0f | %.0f |\n", length, milliseconds([&] { make(length); }),
                milliseconds([&] { compile_to(f, gpu); }), milliseconds([&] { compile_to(f, cpu); }));
  }
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // Loads LLVM's targets and touches its code once.
  compile_to(with_facts(record_layer_norm_gelu<float>()), codegen::parse_target("sm_90a"));
  compile_to(with_facts(record_layer_norm_gelu<float>()), codegen::parse_target(codegen::host_target()));
  std::printf("Compile time, processor time in ms, medians of 7\n\n");
  measure_samples();
  const std::vector<int> lengths = {100, 200, 500, 1000, 2000};
  measure_growth("element-wise tile operations", lengths, [](int n) { return long_kernel(n, false); });
  measure_growth("tile operations, reductions among them", lengths, [](int n) { return long_kernel(n, true); });
  measure_growth("calls of a function of 20 operations", {1, 4, 16, 64}, calling_kernel);
}
