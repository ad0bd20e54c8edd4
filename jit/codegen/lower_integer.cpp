// Integer rows of ir/ops.def as LLVM, and the exact remainder of floats.
// Called through ElementLowering::op. Nothing here traps or is undefined, whatever the lanes hold.
#include <llvm/IR/Module.h>

#include "tileweave/jit/codegen/lower_functions.h"

namespace tileweave::codegen {

using llvm::Value;

namespace {

// A divisor that can be divided by, and what was wrong with the given one.
struct Divisor {
  Value* safe;
  Value* is_zero;
  Value* is_minus_one;  // null for unsigned types
};

Divisor guard(ElementLowering& e, const Operands& x) {
  Divisor d{};
  d.is_zero = e.b.CreateICmpEQ(x[1], e.same_int(x[1], 0));
  Value* bad = d.is_zero;
  if (is_signed(x.type)) {
    d.is_minus_one = e.b.CreateICmpEQ(x[1], e.same_int(x[1], ~std::uint64_t{0}));
    bad = e.b.CreateOr(bad, d.is_minus_one);
  }
  d.safe = e.b.CreateSelect(bad, e.same_int(x[1], 1), x[1]);
  return d;
}

Value* int_div(ElementLowering& e, const Operands& x, const Divisor& d) {
  Value* zero = e.same_int(x[0], 0);
  if (!is_signed(x.type)) return e.b.CreateSelect(d.is_zero, zero, e.b.CreateUDiv(x[0], d.safe));
  Value* q = e.b.CreateSelect(d.is_minus_one, e.b.CreateNeg(x[0]), e.b.CreateSDiv(x[0], d.safe));
  return e.b.CreateSelect(d.is_zero, zero, q);
}

Value* int_div(ElementLowering& e, const Operands& x) { return int_div(e, x, guard(e, x)); }

// a - q * b: right for every q above, a where b is 0.
Value* rest(ElementLowering& e, const Operands& x, Value* quotient) {
  return e.b.CreateSub(x[0], e.b.CreateMul(quotient, x[1]));
}

// The quotient moved by `step` where the division was inexact and the operands' signs agree (or differ).
Value* adjusted(ElementLowering& e, const Operands& x, bool signs_agree, std::uint64_t step) {
  const Divisor d = guard(e, x);
  Value* q = int_div(e, x, d);
  Value* move = e.b.CreateICmpNE(rest(e, x, q), e.same_int(x[0], 0));
  move = e.b.CreateAnd(move, e.b.CreateNot(d.is_zero));
  if (is_signed(x.type)) {
    Value* differ = e.b.CreateICmpSLT(e.b.CreateXor(x[0], x[1]), e.same_int(x[0], 0));
    move = e.b.CreateAnd(move, signs_agree ? e.b.CreateNot(differ) : differ);
  } else if (!signs_agree) {
    return q;
  }
  return e.b.CreateSelect(move, e.b.CreateAdd(q, e.same_int(q, step)), q);
}

}  // namespace

Value* lower_div(ElementLowering& e, const Operands& x) {
  return is_float(x.type) ? e.b.CreateFDiv(x[0], x[1]) : int_div(e, x);
}

Value* lower_floor_div(ElementLowering& e, const Operands& x) { return adjusted(e, x, false, ~std::uint64_t{0}); }
Value* lower_floor_mod(ElementLowering& e, const Operands& x) { return rest(e, x, lower_floor_div(e, x)); }
Value* lower_cdiv(ElementLowering& e, const Operands& x) { return adjusted(e, x, true, 1); }

Value* lower_mul_hi(ElementLowering& e, const Operands& x) {
  const unsigned bits = x[0]->getType()->getScalarSizeInBits();
  llvm::Type* wide = e.like(x[0], llvm::Type::getIntNTy(e.b.getContext(), 2 * bits));
  const auto extend = [&](Value* v) { return is_signed(x.type) ? e.b.CreateSExt(v, wide) : e.b.CreateZExt(v, wide); };
  Value* product = e.b.CreateMul(extend(x[0]), extend(x[1]));
  return e.b.CreateTrunc(e.b.CreateLShr(product, llvm::ConstantInt::get(wide, bits)), x[0]->getType());
}

Value* lower_bit_not(ElementLowering& e, const Operands& x) { return e.b.CreateNot(x[0]); }

Value* lower_shl(ElementLowering& e, const Operands& x) {
  Value* width = e.same_int(x[0], x[0]->getType()->getScalarSizeInBits());
  return e.b.CreateSelect(e.b.CreateICmpULT(x[1], width), e.b.CreateShl(x[0], x[1]), e.same_int(x[0], 0));
}

Value* lower_shr(ElementLowering& e, const Operands& x) {
  const unsigned bits = x[0]->getType()->getScalarSizeInBits();
  if (is_signed(x.type)) {
    Value* most = e.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x[1], e.same_int(x[1], bits - 1));
    return e.b.CreateAShr(x[0], most);
  }
  return e.b.CreateSelect(e.b.CreateICmpULT(x[1], e.same_int(x[1], bits)), e.b.CreateLShr(x[0], x[1]),
                          e.same_int(x[0], 0));
}

Value* lower_popcount(ElementLowering& e, const Operands& x) {
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x[0]);
}
Value* lower_clz(ElementLowering& e, const Operands& x) {
  return e.b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x[0], e.b.getFalse());
}

namespace {

// fmod of two floats as a function of the module: no target has it as an instruction, and it needs a loop. Mantissas
// are integers, so the remainder is long division by shift and remainder, as many bits a step as 64 leave room for.
class FmodFunction {
 public:
  FmodFunction(llvm::Module& m, llvm::Type* real)
      : real_(real),
        is_double_(real->isDoubleTy()),
        fraction_(is_double_ ? 52 : 23),
        bits_(llvm::Type::getIntNTy(m.getContext(), is_double_ ? 64 : 32)),
        wide_(llvm::Type::getInt64Ty(m.getContext())),
        b_(m.getContext()) {
    const std::string name = is_double_ ? "tileweave.fmod.f64" : "tileweave.fmod.f32";
    function_ = m.getFunction(name);
    if (function_ != nullptr) return;
    auto* type = llvm::FunctionType::get(real, {real, real}, false);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, m);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    function_->addFnAttr(llvm::Attribute::NoInline);
    emit();
  }
  llvm::Function* get() const { return function_; }

 private:
  Value* word(std::uint64_t v) { return llvm::ConstantInt::get(wide_, v); }
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function_); }

  void emit() {
    llvm::BasicBlock *entry = block("entry"), *numbers = block("numbers"), *divide = block("divide");
    llvm::BasicBlock *no_result = block("nan"), *unchanged = block("unchanged");
    Value *x = function_->getArg(0), *y = function_->getArg(1);
    b_.SetInsertPoint(entry);
    const std::uint64_t magnitude = is_double_ ? ~std::uint64_t{0} >> 1 : 0x7fffffffu;
    const std::uint64_t infinity = is_double_ ? 0x7ff0000000000000u : 0x7f800000u;
    Value* xb = b_.CreateZExt(b_.CreateBitCast(x, bits_), wide_);
    Value* ax = b_.CreateAnd(xb, word(magnitude));
    Value* ay = b_.CreateAnd(b_.CreateZExt(b_.CreateBitCast(y, bits_), wide_), word(magnitude));
    Value* undefined = b_.CreateOr(b_.CreateICmpUGE(ax, word(infinity)), b_.CreateICmpUGT(ay, word(infinity)));
    undefined = b_.CreateOr(undefined, b_.CreateICmpEQ(ay, word(0)));
    b_.CreateCondBr(undefined, no_result, numbers);
    b_.SetInsertPoint(no_result);
    b_.CreateRet(llvm::ConstantFP::getNaN(real_));
    b_.SetInsertPoint(numbers);
    b_.CreateCondBr(b_.CreateICmpULT(ax, ay), unchanged, divide);
    b_.SetInsertPoint(unchanged);
    b_.CreateRet(x);
    b_.SetInsertPoint(divide);
    emit_division(x, ax, ay);
  }

  // The biased exponent, where a subnormal counts as 1, and the mantissa: value = mantissa * 2^(exponent - 1) units.
  std::pair<Value*, Value*> split(Value* magnitude) {
    Value* exponent = b_.CreateLShr(magnitude, word(fraction_));
    Value* fraction = b_.CreateAnd(magnitude, word((std::uint64_t{1} << fraction_) - 1));
    Value* subnormal = b_.CreateICmpEQ(exponent, word(0));
    Value* full = b_.CreateOr(fraction, word(std::uint64_t{1} << fraction_));
    return {b_.CreateSelect(subnormal, word(1), exponent), b_.CreateSelect(subnormal, fraction, full)};
  }

  void emit_division(Value* x, Value* ax, Value* ay) {
    const auto [ex, mx] = split(ax);
    const auto [ey, my] = split(ay);
    Value* first = b_.CreateURem(mx, my);
    Value* distance = b_.CreateSub(ex, ey);
    llvm::BasicBlock *before = b_.GetInsertBlock(), *head = block("head"), *body = block("body"), *done = block("done");
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode *r = b_.CreatePHI(wide_, 2), *left = b_.CreatePHI(wide_, 2);
    b_.CreateCondBr(b_.CreateICmpEQ(left, word(0)), done, body);
    b_.SetInsertPoint(body);
    Value* step = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, word(63 - fraction_));
    Value* next = b_.CreateURem(b_.CreateShl(r, step), my);
    Value* rest = b_.CreateSub(left, step);
    b_.CreateBr(head);
    r->addIncoming(first, before);
    r->addIncoming(next, body);
    left->addIncoming(distance, before);
    left->addIncoming(rest, body);
    b_.SetInsertPoint(done);
    emit_result(x, r, b_.CreateSub(ey, word(1)));
  }

  // The remainder's bits read as a float are its value in units of the smallest subnormal; two exact products scale it.
  void emit_result(Value* x, Value* r, Value* scale) {
    const std::uint64_t bias = is_double_ ? 1023 : 127;
    const auto power = [&](Value* exponent) {
      Value* bits = b_.CreateShl(b_.CreateAdd(exponent, word(bias)), word(fraction_));
      return b_.CreateBitCast(b_.CreateTrunc(bits, bits_), real_);
    };
    Value* low = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, scale, word(bias));
    Value* value = b_.CreateBitCast(b_.CreateTrunc(r, bits_), real_);
    value = b_.CreateFMul(b_.CreateFMul(value, power(low)), power(b_.CreateSub(scale, low)));
    b_.CreateRet(b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, value, x));
  }

  llvm::Type* real_;
  bool is_double_;
  std::uint64_t fraction_;
  llvm::Type* bits_;
  llvm::Type* wide_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
};

Value* float_rem(ElementLowering& e, const Operands& x) {
  llvm::Function* f = FmodFunction(*e.b.GetInsertBlock()->getModule(), x[0]->getType()->getScalarType()).get();
  const auto* v = llvm::dyn_cast<llvm::FixedVectorType>(x[0]->getType());
  if (v == nullptr) return e.b.CreateCall(f, {x[0], x[1]});
  Value* result = llvm::PoisonValue::get(x[0]->getType());
  for (std::uint64_t i = 0; i < v->getNumElements(); ++i) {
    Value* lane = e.b.CreateCall(f, {e.b.CreateExtractElement(x[0], i), e.b.CreateExtractElement(x[1], i)});
    result = e.b.CreateInsertElement(result, lane, i);
  }
  return result;
}

}  // namespace

Value* lower_rem(ElementLowering& e, const Operands& x) {
  return is_float(x.type) ? float_rem(e, x) : rest(e, x, int_div(e, x));
}

}  // namespace tileweave::codegen
