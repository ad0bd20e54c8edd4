// The rows of ir/ops.def as LLVM: dispatch through the table's `llvm` column, and the floating-point lowerings.
// Integer lowerings stand in lower_integer.cpp, conversions in lower_convert.cpp.
#include "tileweave/jit/codegen/lower_elementwise.h"

#include <array>
#include <bit>
#include <source_location>
#include <string>

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/lower_functions.h"

namespace tileweave::codegen {

using llvm::Value;

// --- types and constants

namespace {

llvm::Type* with_lanes(llvm::Type* scalar, unsigned lanes) {
  return lanes == 0 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

}  // namespace

llvm::Type* ElementLowering::register_type(Dtype t, unsigned lanes) const {
  llvm::LLVMContext& c = b.getContext();
  if (t == Dtype::f64) return with_lanes(llvm::Type::getDoubleTy(c), lanes);
  if (t == Dtype::f32) return with_lanes(llvm::Type::getFloatTy(c), lanes);
  const auto bits = is_bool(t) ? 1u : static_cast<unsigned>(dtype_info(t).bits);
  return with_lanes(llvm::Type::getIntNTy(c, bits), lanes);
}

llvm::Type* ElementLowering::memory_type(Dtype t, unsigned lanes) const {
  return is_bool(t) ? with_lanes(b.getInt8Ty(), lanes) : register_type(t, lanes);
}

Value* ElementLowering::to_memory(Value* x, Dtype t) {
  return is_bool(t) ? b.CreateZExt(x, like(x, b.getInt8Ty())) : x;
}

Value* ElementLowering::from_memory(Value* x, Dtype t) { return is_bool(t) ? b.CreateICmpNE(x, same_int(x, 0)) : x; }

llvm::Constant* ElementLowering::constant_bits(Dtype t, std::uint64_t bits, unsigned lanes) const {
  llvm::Type* type = register_type(t, lanes);
  if (t == Dtype::f64) return llvm::ConstantFP::get(type, std::bit_cast<double>(bits));
  if (t == Dtype::f32) {
    const llvm::APFloat value(llvm::APFloat::IEEEsingle(), llvm::APInt(32, static_cast<std::uint32_t>(bits)));
    return llvm::ConstantFP::get(type, value);
  }
  return llvm::ConstantInt::get(type, llvm::APInt(type->getScalarSizeInBits(), bits));
}

llvm::Type* ElementLowering::like(Value* x, llvm::Type* scalar) const {
  const auto* v = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return v == nullptr ? scalar : llvm::FixedVectorType::get(scalar, v->getNumElements());
}

llvm::Type* ElementLowering::int_like(Value* x) const {
  return like(x, llvm::Type::getIntNTy(b.getContext(), x->getType()->getScalarSizeInBits()));
}

llvm::Constant* ElementLowering::same(Value* x, double c) const { return llvm::ConstantFP::get(x->getType(), c); }

llvm::Constant* ElementLowering::same_int(Value* x, std::uint64_t c) const {
  llvm::Type* type = int_like(x);
  return llvm::ConstantInt::get(type, llvm::APInt(type->getScalarSizeInBits(), c));
}

// --- dispatch

Value* ElementLowering::op(ir::OpId id, Dtype type, std::span<Value* const> operands) {
  const ir::OpTypes types = ir::op_info(id).types;
  if (is_narrow_float(type) && types != ir::OpTypes::Select) {
    std::array<Value*, 3> wide{};
    for (std::size_t i = 0; i < operands.size(); ++i) wide[i] = decode_narrow(operands[i], type);
    Value* r = op(id, Dtype::f32, std::span(wide).first(operands.size()));
    return types == ir::OpTypes::Float || types == ir::OpTypes::Num ? encode_narrow(r, type) : r;
  }
  const auto binary = [&](llvm::Instruction::BinaryOps for_signed, llvm::Instruction::BinaryOps for_unsigned,
                          llvm::Instruction::BinaryOps for_float) {
    const auto opcode = is_float(type) ? for_float : is_signed(type) ? for_signed : for_unsigned;
    return b.CreateBinOp(opcode, operands[0], operands[1]);
  };
  switch (id) {
#define TILEWEAVE_LOWER_instr(s, u, f) return binary(llvm::Instruction::s, llvm::Instruction::u, llvm::Instruction::f)
#define TILEWEAVE_LOWER_custom(fn) return lower_##fn(*this, Operands{type, operands})
#define TILEWEAVE_LOWER_expanded break
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm_, gradient, ulp, text) \
  case ir::OpId::id:                                                                 \
    TILEWEAVE_LOWER_##llvm_;
#include "tileweave/jit/ir/ops.def"
#undef TILEWEAVE_LOWER_instr
#undef TILEWEAVE_LOWER_custom
#undef TILEWEAVE_LOWER_expanded
    default:
      break;
  }
  throw_internal_error(std::source_location::current(),
                       "no lowering of " + std::string(ir::op_info(id).name) + " at " + std::string(dtype_name(type)));
}

// --- smaller and larger

// x86's vrange orders -0 < +0 and gives the number where one operand is a quiet NaN: one instruction.
Value* ElementLowering::range_instruction(Value* a, Value* c, bool smaller) {
  const auto* v = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  if (!target.range_min || v == nullptr) return nullptr;
  const bool is_double = v->getElementType()->isDoubleTy();
  if (v->getNumElements() != (is_double ? 8u : 16u)) return nullptr;
  Value* control = b.getInt32(smaller ? 4 : 5);  // bit 0: larger; bits 2 and 3: the sign is the comparison's
  Value* all = llvm::Constant::getAllOnesValue(is_double ? b.getInt8Ty() : b.getInt16Ty());
  const auto id =
      is_double ? llvm::Intrinsic::x86_avx512_mask_range_pd_512 : llvm::Intrinsic::x86_avx512_mask_range_ps_512;
  return b.CreateIntrinsic(id, {}, {a, c, control, llvm::PoisonValue::get(a->getType()), all, b.getInt32(4)});
}

// Of two numbers; what it gives for a NaN is the caller's to replace.
Value* ElementLowering::float_extremum(Value* a, Value* c, bool smaller) {
  if (Value* r = range_instruction(a, c, smaller)) return r;
  Value* first = smaller ? b.CreateFCmpOLT(a, c) : b.CreateFCmpOGT(a, c);
  Value* r = b.CreateSelect(first, a, c);
  // Equal numbers differ at most in the sign of a zero.
  llvm::Type* bits = int_like(a);
  Value *x = b.CreateBitCast(a, bits), *y = b.CreateBitCast(c, bits);
  Value* merged = b.CreateBitCast(smaller ? b.CreateOr(x, y) : b.CreateAnd(x, y), a->getType());
  return b.CreateSelect(b.CreateFCmpOEQ(a, c), merged, r);
}

namespace {

Value* int_extremum(ElementLowering& e, Value* a, Value* c, Dtype t, bool smaller) {
  using llvm::Intrinsic::smax, llvm::Intrinsic::smin, llvm::Intrinsic::umax, llvm::Intrinsic::umin;
  const auto id = is_signed(t) ? (smaller ? smin : smax) : (smaller ? umin : umax);
  return e.b.CreateBinaryIntrinsic(id, a, c);
}

bool has_ordered_instruction(const ElementLowering& e, Value* a) {
  return e.target.ordered_min && a->getType()->getScalarType()->isFloatTy();
}

}  // namespace

Value* ElementLowering::minimum(Value* a, Value* c, Dtype t) {
  if (!is_float(t)) return int_extremum(*this, a, c, t, true);
  if (has_ordered_instruction(*this, a)) return b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, a, c);
  return b.CreateSelect(b.CreateFCmpUNO(a, c), b.CreateFAdd(a, c), float_extremum(a, c, true));
}

Value* ElementLowering::maximum(Value* a, Value* c, Dtype t) {
  if (!is_float(t)) return int_extremum(*this, a, c, t, false);
  if (has_ordered_instruction(*this, a)) return b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, a, c);
  return b.CreateSelect(b.CreateFCmpUNO(a, c), b.CreateFAdd(a, c), float_extremum(a, c, false));
}

Value* ElementLowering::fmin(Value* a, Value* c, Dtype t) {
  if (!is_float(t)) return int_extremum(*this, a, c, t, true);
  if (has_ordered_instruction(*this, a)) return b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, a, c);
  Value* r = b.CreateSelect(b.CreateFCmpUNO(c, c), a, float_extremum(a, c, true));
  return b.CreateSelect(b.CreateFCmpUNO(a, a), c, r);
}

Value* ElementLowering::fmax(Value* a, Value* c, Dtype t) {
  if (!is_float(t)) return int_extremum(*this, a, c, t, false);
  if (has_ordered_instruction(*this, a)) return b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, a, c);
  Value* r = b.CreateSelect(b.CreateFCmpUNO(c, c), a, float_extremum(a, c, false));
  return b.CreateSelect(b.CreateFCmpUNO(a, a), c, r);
}

// --- the rows

Value* lower_minimum(ElementLowering& e, const Operands& x) { return e.minimum(x[0], x[1], x.type); }
Value* lower_maximum(ElementLowering& e, const Operands& x) { return e.maximum(x[0], x[1], x.type); }
Value* lower_fmin(ElementLowering& e, const Operands& x) { return e.fmin(x[0], x[1], x.type); }
Value* lower_fmax(ElementLowering& e, const Operands& x) { return e.fmax(x[0], x[1], x.type); }

Value* lower_neg(ElementLowering& e, const Operands& x) {
  return is_float(x.type) ? e.b.CreateFNeg(x[0]) : e.b.CreateNeg(x[0]);
}

Value* lower_abs(ElementLowering& e, const Operands& x) {
  if (is_float(x.type)) return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x[0]);
  if (!is_signed(x.type)) return x[0];
  return e.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], e.b.getFalse());
}

Value* lower_fma(ElementLowering& e, const Operands& x) {
  if (!is_float(x.type)) return e.b.CreateAdd(e.b.CreateMul(x[0], x[1]), x[2]);
  return e.b.CreateIntrinsic(llvm::Intrinsic::fma, {x[0]->getType()}, {x[0], x[1], x[2]});
}

Value* lower_sqrt(ElementLowering& e, const Operands& x) {
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]);
}
Value* lower_floor(ElementLowering& e, const Operands& x) {
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x[0]);
}
Value* lower_ceil(ElementLowering& e, const Operands& x) {
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x[0]);
}
Value* lower_trunc(ElementLowering& e, const Operands& x) {
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x[0]);
}
Value* lower_rint(ElementLowering& e, const Operands& x) {
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::rint, x[0]);
}

// Adding the largest number below one half and truncating rounds halves away from zero: one half itself would carry
// 0.49999997 over to 1.
Value* lower_round(ElementLowering& e, const Operands& x) {
  const double below_half = x.type == Dtype::f64 ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2;
  Value* toward = e.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, e.same(x[0], below_half), x[0]);
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, e.b.CreateFAdd(x[0], toward));
}

Value* lower_copysign(ElementLowering& e, const Operands& x) {
  return e.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x[0], x[1]);
}

namespace {

Value* compare(ElementLowering& e, const Operands& x, llvm::CmpInst::Predicate floating,
               llvm::CmpInst::Predicate for_signed, llvm::CmpInst::Predicate for_unsigned) {
  if (is_float(x.type)) return e.b.CreateFCmp(floating, x[0], x[1]);
  return e.b.CreateICmp(is_signed(x.type) ? for_signed : for_unsigned, x[0], x[1]);
}

}  // namespace

using Cmp = llvm::CmpInst;
Value* lower_eq(ElementLowering& e, const Operands& x) {
  return compare(e, x, Cmp::FCMP_OEQ, Cmp::ICMP_EQ, Cmp::ICMP_EQ);
}
Value* lower_ne(ElementLowering& e, const Operands& x) {
  return compare(e, x, Cmp::FCMP_UNE, Cmp::ICMP_NE, Cmp::ICMP_NE);
}
Value* lower_lt(ElementLowering& e, const Operands& x) {
  return compare(e, x, Cmp::FCMP_OLT, Cmp::ICMP_SLT, Cmp::ICMP_ULT);
}
Value* lower_le(ElementLowering& e, const Operands& x) {
  return compare(e, x, Cmp::FCMP_OLE, Cmp::ICMP_SLE, Cmp::ICMP_ULE);
}
Value* lower_gt(ElementLowering& e, const Operands& x) {
  return compare(e, x, Cmp::FCMP_OGT, Cmp::ICMP_SGT, Cmp::ICMP_UGT);
}
Value* lower_ge(ElementLowering& e, const Operands& x) {
  return compare(e, x, Cmp::FCMP_OGE, Cmp::ICMP_SGE, Cmp::ICMP_UGE);
}

Value* lower_is_nan(ElementLowering& e, const Operands& x) { return e.b.CreateFCmpUNO(x[0], x[0]); }

Value* lower_is_inf(ElementLowering& e, const Operands& x) {
  Value* magnitude = e.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x[0]);
  return e.b.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(x[0]->getType()));
}

Value* lower_is_finite(ElementLowering& e, const Operands& x) {
  Value* magnitude = e.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x[0]);
  return e.b.CreateFCmpOLT(magnitude, llvm::ConstantFP::getInfinity(x[0]->getType()));
}

Value* lower_signbit(ElementLowering& e, const Operands& x) {
  return e.b.CreateICmpSLT(e.b.CreateBitCast(x[0], e.int_like(x[0])), e.same_int(x[0], 0));
}

Value* lower_where(ElementLowering& e, const Operands& x) { return e.b.CreateSelect(x[0], x[1], x[2]); }

}  // namespace tileweave::codegen
