// Short forms as LLVM: multiply-adds and the GPU's approximate instructions.
// See gpu_short_forms.h; the table decides which form an op has, the template what it is.
#include "tileweave/jit/codegen/gpu_short_forms.h"

#include <llvm/IR/Constants.h>

#include <array>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/meaning/short_forms.h"

namespace tileweave::codegen {
namespace {

struct Lane {
  GpuContext* c = nullptr;
  llvm::Value* value = nullptr;

  Lane with(llvm::Value* v) const { return {c, v}; }
  Lane op(ir::OpId id, std::initializer_list<llvm::Value*> operands) const {
    return with(c->elements.op(id, Dtype::f32, std::span(operands.begin(), operands.size())));
  }
  Lane call(PrimitiveId id) const { return with(c->call(id, {value})); }
};
Lane operator+(const Lane& a, const Lane& b) { return a.with(a.c->b.CreateFAdd(a.value, b.value)); }
Lane operator*(const Lane& a, const Lane& b) { return a.with(a.c->b.CreateFMul(a.value, b.value)); }

}  // namespace
}  // namespace tileweave::codegen

namespace tileweave::short_forms {

template <>
struct Approx<codegen::Lane> {
  using L = codegen::Lane;
  using Id = codegen::PrimitiveId;
  static L constant(const L& like, double c) {
    return like.with(llvm::ConstantFP::get(like.value->getType(), static_cast<double>(static_cast<float>(c))));
  }
  static L fma(const L& a, const L& b, const L& c) { return a.op(ir::OpId::fma, {a.value, b.value, c.value}); }
  static L abs(const L& a) { return a.op(ir::OpId::abs, {a.value}); }
  static L lesser(const L& a, const L& b) { return a.op(ir::OpId::fmin, {a.value, b.value}); }
  static L greater(const L& a, const L& b) { return a.op(ir::OpId::maximum, {a.value, b.value}); }
  static L choose_below(const L& a, const L& b, const L& yes, const L& no) {
    return a.with(a.c->b.CreateSelect(a.c->b.CreateFCmpOLT(a.value, b.value), yes.value, no.value));
  }
  static L ex2(const L& a) { return a.call(Id::ex2_approx); }
  static L ex2_ftz(const L& a) { return a.call(Id::ex2_approx_ftz); }
  static L rcp_ftz(const L& a) { return a.call(Id::rcp_approx_ftz); }
  static L rsqrt(const L& a) { return a.call(Id::rsqrt_approx); }
  static L sqrt(const L& a) { return a.call(Id::sqrt_approx); }
};

}  // namespace tileweave::short_forms

namespace tileweave::codegen {

llvm::Value* lower_short_form(GpuContext& c, const ir::ShortForm& form, std::span<llvm::Value* const> operands) {
  using namespace short_forms;
  using V = Lane;
  const Lane a{&c, operands.front()}, b{&c, operands.back()};
  const std::array rows = {
#define TILEWEAVE_SHORT_FORM(op, type, use, form, ulp) +[](const Lane& a, const Lane& b) { return (void)b, form; },
#include "tileweave/jit/ir/short_forms.def"
  };
  return rows[static_cast<std::size_t>(form.row)](a, b).value;
}

llvm::Value* lower_quotient_in_range(GpuContext& c, llvm::Value* a, llvm::Value* b) {
  using A = short_forms::Approx<Lane>;
  const Lane divisor{&c, b}, minus_a{&c, c.b.CreateFNeg(a)}, minus_b{&c, c.b.CreateFNeg(b)};
  Lane r = A::rcp_ftz(divisor);
  r = A::fma(A::fma(minus_b, r, A::constant(r, 1.0)), r, r);
  const Lane q = Lane{&c, a} * r;
  // b q - a and not a - b q: where q is -0 the one gives 0 and the correction then -0, the other would give 0.
  const Lane excess = A::fma(divisor, q, minus_a);
  return A::fma(Lane{&c, c.b.CreateFNeg(excess.value)}, r, q).value;
}

}  // namespace tileweave::codegen
