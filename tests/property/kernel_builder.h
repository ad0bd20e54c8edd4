// Builds one kernel with the views, values and facts that a launch of it would have.
// Under gpu_kernels.cpp and matmul_kernels.cpp.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/property/dice.h"
#include "tests/property/sweep.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::property {

class Kernel {
 public:
  explicit Kernel(std::string name) : b(c_.program.function), dice_(0x9e37) { c_.name = std::move(name); }

  // `strides` empty: row-major.
  ir::Value* input(Dtype t, const ir::Extents& e, ir::Extents strides = {}) {
    return view(t, e, std::move(strides), false);
  }
  ir::Value* output(Dtype t, const ir::Extents& e, ir::Extents strides = {}) {
    return view(t, e, std::move(strides), true);
  }
  // Replaces the values of the input made last.
  void fill(const std::function<std::int64_t(std::int64_t)>& f) {
    Argument& a = c_.program.arguments.back();
    const Dtype t = c_.program.function.params.back().value->type.elem;
    for (std::size_t i = 0; i < a.elements.size(); ++i) {
      a.elements[i] = ir::host::from_int(f(static_cast<std::int64_t>(i)), t);
    }
  }
  ir::Options& options() { return c_.program.function.options; }
  SweepCase take(ir::Grid grid) {
    c_.program.grid = grid;
    return {std::move(c_.name), {0, std::move(c_.program.function), std::move(c_.program.arguments), grid}};
  }

  ir::Value* load(ir::Value* v, std::vector<ir::Value*> offsets, const ir::Extents& e, double pad = 0) {
    return b.load(v, offsets, e, nullptr, ir::host::from_double(pad, v->type.elem));
  }
  // The block and the mask of its lanes inside the view.
  std::pair<ir::Value*, ir::Value*> load_valid(ir::Value* v, const std::vector<ir::Value*>& offsets,
                                               const ir::Extents& e) {
    return {load(v, offsets, e), b.inside(v, offsets, e)};
  }
  void store(ir::Value* v, std::vector<ir::Value*> offsets, ir::Value* x) { b.store(v, offsets, x, nullptr); }
  ir::Value* program(int axis, std::int64_t times) {
    return b.elementwise(ir::OpId::mul, {b.program_id(axis), b.index(times)});
  }
  // A [m, 1] or [m] value over the columns of `like`.
  ir::Value* over(ir::Value* x, ir::Value* like) {
    if (x->type.rank < like->type.rank) x = b.expand_dims(x, like->type.rank - 1);
    return b.broadcast(x, like->type.shape());
  }
  ir::Value* number(const ir::Type& like, double v) { return b.constant(like, v); }

 private:
  ir::Value* view(Dtype t, const ir::Extents& e, ir::Extents strides, bool is_output) {
    Argument a;
    a.extents = e;
    a.strides = std::move(strides);
    if (a.strides.empty()) {
      a.strides.assign(e.size(), 1);
      for (std::size_t k = e.size(); k-- > 1;) a.strides[k - 1] = a.strides[k] * e[k];
    }
    a.is_output = is_output;
    std::int64_t count = 1;
    for (const std::int64_t n : e) count *= n;
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = static_cast<double>(dice_.between(-64, 64)) / (is_float(t) ? 16.0 : 1.0);
      a.elements.push_back(ir::host::from_double(v, t));
    }
    ir::Value* value = c_.program.function.add_param(ir::Type::view(t, static_cast<int>(e.size()), !is_output), "");
    ir::ViewFacts& facts = c_.program.function.params.back().facts;
    facts.aligned_base = facts.offsets_fit_32 = true;
    for (std::size_t k = 0; k < a.strides.size(); ++k) {
      if (a.strides[k] == 1) facts.unit_stride = static_cast<std::uint8_t>(facts.unit_stride | 1u << k);
      if (a.strides[k] * dtype_bytes(t) % 16 == 0) {
        facts.aligned_stride = static_cast<std::uint8_t>(facts.aligned_stride | 1u << k);
      }
    }
    if (a.strides.empty() || a.strides.back() < 0) facts.aligned_base = false;
    c_.program.arguments.push_back(std::move(a));
    return value;
  }

  SweepCase c_;

 public:
  ir::Builder b;

 private:
  Dice dice_;
};

}  // namespace tileweave::property
