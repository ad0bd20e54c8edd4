// Conversions between all element types, each rounded once: LLVM as the convert and bitcast ops mean it.
// Called through ElementLowering; the rules are those of base/float_types.h and ir/host_eval.cpp.
#include <bit>

#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/codegen/lower_elementwise.h"

namespace tileweave::codegen {

using llvm::Value;

namespace {

// A narrow format's numbers, taken from the host's own description of it.
struct NarrowFormat {
  int bits, exponent_bits, fraction_bits, bias;
  std::uint32_t sign, top_exponent, max_finite, nan, overflowed;
  bool has_infinity;
};

NarrowFormat narrow_format(Dtype t) {
  return visit_dtype(t, []<class T>(std::type_identity<T>) {
    if constexpr (NarrowFloatType<T>) {
      using F = typename T::Format;
      return NarrowFormat{1 + F::exponent_bits + F::fraction_bits,
                          F::exponent_bits,
                          F::fraction_bits,
                          F::bias,
                          F::sign,
                          F::top_exponent,
                          F::max_finite,
                          F::nan,
                          detail::overflowed<F>(F::overflow),
                          F::has_infinity};
    } else {
      return NarrowFormat{};
    }
  });
}

}  // namespace

// --- from and to narrow floats

Value* ElementLowering::decode_narrow(Value* bits, Dtype from) {
  const NarrowFormat f = narrow_format(from);
  llvm::Type *real = like(bits, b.getFloatTy()), *word = like(bits, b.getInt32Ty());
  Value* wide = b.CreateZExt(bits, word);
  const auto constant = [&](std::uint32_t c) { return llvm::ConstantInt::get(word, c); };
  // The sign at the top of the word, and the quiet NaN that every NaN becomes.
  Value* sign = b.CreateShl(b.CreateAnd(wide, constant(f.sign)), constant(static_cast<std::uint32_t>(32 - f.bits)));
  Value* quiet = b.CreateBitCast(b.CreateOr(sign, constant(0x7fc00000u)), real);
  if (from == Dtype::bf16 || (from == Dtype::f16 && target.f16_convert)) {
    Value* x = from == Dtype::bf16 ? b.CreateBitCast(b.CreateShl(wide, constant(16)), real)
                                   : b.CreateFPExt(b.CreateBitCast(bits, like(bits, b.getHalfTy())), real);
    return target.any_nan ? x : b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, x);
  }
  // Read as an f32 with the exponent still biased for the narrow format, then scaled: exact, subnormals too.
  Value* magnitude = b.CreateAnd(wide, constant(f.sign - 1));
  Value* small =
      b.CreateBitCast(b.CreateShl(magnitude, constant(static_cast<std::uint32_t>(23 - f.fraction_bits))), real);
  const std::uint32_t scale = static_cast<std::uint32_t>(127 + 127 - f.bias) << 23;
  Value* value = b.CreateFMul(small, llvm::ConstantFP::get(real, std::bit_cast<float>(scale)));
  value = b.CreateBitCast(b.CreateOr(b.CreateBitCast(value, word), sign), real);
  if (f.has_infinity) {
    Value* infinite = b.CreateBitCast(b.CreateOr(sign, constant(0x7f800000u)), real);
    value = b.CreateSelect(b.CreateICmpEQ(magnitude, constant(f.top_exponent)), infinite, value);
    return b.CreateSelect(b.CreateICmpUGT(magnitude, constant(f.top_exponent)), quiet, value);
  }
  return b.CreateSelect(b.CreateICmpEQ(magnitude, constant(f.nan)), quiet, value);
}

Value* ElementLowering::encode_narrow(Value* x, Dtype to) {
  const bool single = x->getType()->getScalarType()->isFloatTy();
  const bool by_instruction = single && ((to == Dtype::f16 && target.f16_convert) ||  //
                                         (to == Dtype::bf16 && target.bf16_convert));
  if (!by_instruction) return encode_by_integers(x, to);
  llvm::Type* half = like(x, to == Dtype::f16 ? b.getHalfTy() : b.getBFloatTy());
  llvm::Type* storage = like(x, b.getInt16Ty());
  Value* rounded = b.CreateBitCast(b.CreateFPTrunc(x, half), storage);
  if (target.any_nan) return rounded;
  Value* sign = b.CreateTrunc(b.CreateLShr(b.CreateBitCast(x, int_like(x)), same_int(x, 16)), storage);
  Value* quiet = b.CreateOr(b.CreateAnd(sign, llvm::ConstantInt::get(storage, 0x8000)),
                            llvm::ConstantInt::get(storage, narrow_format(to).nan));
  return b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded);
}

// Rounds by integer arithmetic on the bits: the carry out of the fraction moves the exponent as it should. Results
// below the smallest normal number are rounded by an addition that leaves them at the bottom of the fraction.
Value* ElementLowering::encode_by_integers(Value* x, Dtype to) {
  const NarrowFormat f = narrow_format(to);
  const bool is_double = x->getType()->getScalarType()->isDoubleTy();
  const int width = is_double ? 64 : 32, fraction = is_double ? 52 : 23, bias = is_double ? 1023 : 127;
  llvm::Type* storage = like(x, llvm::Type::getIntNTy(b.getContext(), static_cast<unsigned>(f.bits)));
  const auto constant = [&](std::uint64_t c) { return same_int(x, c); };
  const auto count = [&](int n) { return same_int(x, static_cast<std::uint64_t>(n)); };
  Value* bits = b.CreateBitCast(x, int_like(x));
  Value* magnitude = b.CreateAnd(bits, constant((std::uint64_t{1} << (width - 1)) - 1));
  Value* sign = b.CreateAnd(b.CreateLShr(bits, count(width - f.bits)), constant(f.sign));

  const int drop = fraction - f.fraction_bits;
  const std::uint64_t rebias = static_cast<std::uint64_t>(bias - f.bias) << fraction;
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, count(drop)), constant(1));
  Value* sum = b.CreateAdd(magnitude, constant((std::uint64_t{1} << (drop - 1)) - 1 - rebias));
  Value* result = b.CreateLShr(b.CreateAdd(sum, odd), count(drop));
  if (bias != f.bias) {
    const std::uint64_t smallest_normal = static_cast<std::uint64_t>(bias - f.bias + 1) << fraction;
    const std::uint64_t aligner = static_cast<std::uint64_t>(1 - f.bias - f.fraction_bits + fraction + bias)
                                  << fraction;
    Value* aligned = b.CreateFAdd(b.CreateBitCast(magnitude, x->getType()),
                                  llvm::ConstantExpr::getBitCast(constant(aligner), x->getType()));
    Value* subnormal = b.CreateSub(b.CreateBitCast(aligned, int_like(x)), constant(aligner));
    result = b.CreateSelect(b.CreateICmpULT(magnitude, constant(smallest_normal)), subnormal, result);
  }
  result = b.CreateSelect(b.CreateICmpUGT(result, constant(f.max_finite)), constant(f.overflowed), result);
  result = b.CreateSelect(b.CreateFCmpUNO(x, x), constant(f.nan), result);
  return b.CreateTrunc(b.CreateOr(result, sign), storage);
}

// Through a float that holds the integer closely enough: exactly, or beyond the narrow format's range in any case, or
// (the last branch) with the bits that rounding does not reach collected in one.
Value* ElementLowering::int_to_narrow(Value* x, Dtype from, Dtype to) {
  const bool sign = is_signed(from);
  const auto to_real = [&](Value* v, llvm::Type* scalar) {
    return sign ? b.CreateSIToFP(v, like(v, scalar)) : b.CreateUIToFP(v, like(v, scalar));
  };
  const int bits = dtype_info(from).bits;
  if (bits <= 16 || to != Dtype::bf16) return encode_narrow(to_real(x, b.getFloatTy()), to);
  if (bits == 32) return encode_narrow(to_real(x, b.getDoubleTy()), to);
  Value* magnitude = sign ? b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse()) : x;
  Value* lost = b.CreateICmpNE(b.CreateAnd(magnitude, same_int(x, 0x7ff)), same_int(x, 0));
  Value* sticky = b.CreateSelect(lost, same_int(x, 0x800), same_int(x, 0));
  Value* collected = b.CreateOr(b.CreateAnd(magnitude, same_int(x, ~std::uint64_t{0x7ff})), sticky);
  Value* large = b.CreateICmpUGE(magnitude, same_int(x, std::uint64_t{1} << 53));
  llvm::Type* real = like(x, b.getDoubleTy());
  Value* value = b.CreateUIToFP(b.CreateSelect(large, collected, magnitude), real);
  if (sign) value = b.CreateSelect(b.CreateICmpSLT(x, same_int(x, 0)), b.CreateFNeg(value), value);
  return encode_narrow(value, to);
}

// --- between numbers

// Out of range the instruction's result is undefined, and a selection that does not take it makes that harmless.
Value* ElementLowering::float_to_int(Value* x, Dtype to) {
  const int bits = dtype_info(to).bits;
  llvm::Type* type = like(x, b.getIntNTy(static_cast<unsigned>(bits)));
  const auto constant = [&](std::uint64_t c) {
    return llvm::ConstantInt::get(type, llvm::APInt(static_cast<unsigned>(bits), c));
  };
  const std::uint64_t ones = ~std::uint64_t{0};
  if (is_unsigned(to)) {
    const double limit = bits == 64 ? 0x1p64 : static_cast<double>(std::uint64_t{1} << bits);
    Value* r = b.CreateSelect(b.CreateFCmpOGE(x, same(x, limit)), constant(ones), b.CreateFPToUI(x, type));
    return b.CreateSelect(b.CreateFCmpOGT(x, same(x, 0.0)), r, constant(0));
  }
  const double limit = static_cast<double>(std::uint64_t{1} << (bits - 1));
  const std::uint64_t smallest = std::uint64_t{1} << (bits - 1);
  Value* r = b.CreateSelect(b.CreateFCmpOGE(x, same(x, limit)), constant(smallest - 1), b.CreateFPToSI(x, type));
  r = b.CreateSelect(b.CreateFCmpOLE(x, same(x, -limit)), constant(smallest), r);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), constant(0), r);
}

Value* ElementLowering::int_to_int(Value* x, Dtype from, Dtype to, bool saturate) {
  const int have = dtype_info(from).bits, want = dtype_info(to).bits;
  if (saturate) {
    // Clamped in the source's type, where the target's limits can be out of reach.
    const int from_value_bits = have - (is_signed(from) ? 1 : 0), to_value_bits = want - (is_signed(to) ? 1 : 0);
    if (from_value_bits > to_value_bits) {
      const auto id = is_signed(from) ? llvm::Intrinsic::smin : llvm::Intrinsic::umin;
      const std::uint64_t most = ~std::uint64_t{0} >> (64 - to_value_bits);
      x = b.CreateBinaryIntrinsic(id, x, same_int(x, most));
    }
    if (is_signed(from) && (is_unsigned(to) || want < have)) {
      const std::uint64_t least = is_unsigned(to) ? 0 : ~std::uint64_t{0} << (want - 1);
      x = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, same_int(x, least));
    }
  }
  llvm::Type* type = like(x, b.getIntNTy(static_cast<unsigned>(want)));
  return is_signed(from) ? b.CreateSExtOrTrunc(x, type) : b.CreateZExtOrTrunc(x, type);
}

Value* ElementLowering::convert(Value* x, Dtype from, Dtype to, bool saturate) {
  if (from == to) return x;
  if (is_narrow_float(from)) return convert(decode_narrow(x, from), Dtype::f32, to, saturate);
  if (is_bool(to)) return is_float(from) ? b.CreateFCmpUNE(x, same(x, 0.0)) : b.CreateICmpNE(x, same_int(x, 0));
  if (is_bool(from)) {
    if (is_int(to)) return b.CreateZExt(x, like(x, register_type(to)));
    return b.CreateSelect(x, constant_one(x, to), llvm::Constant::getNullValue(like(x, register_type(to))));
  }
  if (is_float(from)) {
    if (is_int(to)) return float_to_int(x, to);
    if (is_narrow_float(to)) return encode_narrow(x, to);
    return to == Dtype::f64 ? b.CreateFPExt(x, like(x, b.getDoubleTy())) : b.CreateFPTrunc(x, like(x, b.getFloatTy()));
  }
  if (is_int(to)) return int_to_int(x, from, to, saturate);
  if (is_narrow_float(to)) return int_to_narrow(x, from, to);
  llvm::Type* real = like(x, register_type(to));
  return is_signed(from) ? b.CreateSIToFP(x, real) : b.CreateUIToFP(x, real);
}

// 1 of a floating type, in register form.
llvm::Constant* ElementLowering::constant_one(Value* x, Dtype t) const {
  llvm::Type* type = like(x, register_type(t));
  if (!is_narrow_float(t)) return llvm::ConstantFP::get(type, 1.0);
  const NarrowFormat f = narrow_format(t);
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(f.bias) << f.fraction_bits);
}

Value* ElementLowering::bitcast(Value* x, Dtype from, Dtype to) {
  return from == to ? x : b.CreateBitCast(x, like(x, register_type(to)));
}

}  // namespace tileweave::codegen
