// What LLVM calls for narrow floats on a plain x86-64: conversions between f16, bf16 and wider types, and remainders.
// Part of simt_symbols(): the emulated code is made for the baseline, so these calls are its hardware.
#include <bit>
#include <cmath>

#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/runtime/simt_call.h"

namespace tileweave::runtime::simt {
namespace {

// LLVM passes half and bfloat in the low 16 bits of a vector register, as this type is passed.
using InRegister = float;
InRegister put_bits(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
std::uint16_t take_bits(InRegister x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x)); }

float widen_half(InRegister x) { return static_cast<float>(f16::from_bits(take_bits(x))); }
InRegister narrow_to_half(float x) { return put_bits(f16(x).bits); }
InRegister narrow_double_to_half(double x) { return put_bits(f16(x).bits); }
InRegister narrow_to_bfloat(float x) { return put_bits(bf16(x).bits); }
InRegister narrow_double_to_bfloat(double x) { return put_bits(bf16(x).bits); }

template <class R, class... A>
void* address(R (*f)(A...)) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

void add_soft_float(std::vector<Symbol>& symbols) {
  const Symbol all[] = {{"__extendhfsf2", address(widen_half)},
                        {"__gnu_h2f_ieee", address(widen_half)},
                        {"__truncsfhf2", address(narrow_to_half)},
                        {"__gnu_f2h_ieee", address(narrow_to_half)},
                        {"__truncdfhf2", address(narrow_double_to_half)},
                        {"__truncsfbf2", address(narrow_to_bfloat)},
                        {"__truncdfbf2", address(narrow_double_to_bfloat)},
                        {"fmodf", address(static_cast<float (*)(float, float)>(::fmodf))},
                        {"fmod", address(static_cast<double (*)(double, double)>(::fmod))},
                        {"roundevenf", address(static_cast<float (*)(float)>(::roundevenf))},
                        {"roundeven", address(static_cast<double (*)(double)>(::roundeven))},
                        {"roundf", address(static_cast<float (*)(float)>(::roundf))},
                        {"round", address(static_cast<double (*)(double)>(::round))}};
  symbols.insert(symbols.end(), std::begin(all), std::end(all));
}

}  // namespace tileweave::runtime::simt
