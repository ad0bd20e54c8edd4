// One LLVM lowering for every native element-wise op of ir/ops.def, and for conversions between all element types.
// Shared by the CPU and the GPU back end: it works on scalars and on vectors alike, and calls only what every target
// has (no llvm.exp and its kin: those ops are expanded before they come here).
//
// How an element stands in a register:
//   f64, f32            double, float
//   f16 bf16 f8e4m3 f8e5m2   its storage bits: i16, i16, i8, i8. So moving, selecting and bit-casting never touch a
//   NaN. integers            iN bool                i1 (in memory a byte, 0 or 1: see to_memory and from_memory)
#pragma once

#include <cstdint>
#include <span>

#include <llvm/IR/IRBuilder.h>

#include "tileweave/jit/base/dtype.h"
#include "tileweave/jit/ir/ops.h"

namespace tileweave::codegen {

// What of the target changes how an element op is best written. The values are the same under every setting (a NaN is
// a NaN).
struct ElementTarget {
  bool f16_convert = false;   // f32 <-> f16 is an instruction (x86 F16C, every NVPTX)
  bool bf16_convert = false;  // f32 -> bf16 is an instruction that keeps denormals (sm_80 and later; not x86's)
  bool any_nan = false;       // a NaN stays one, of whatever sign and bits the conversion gives (NVPTX: half the work)
  bool ordered_min = false;   // llvm.minnum / llvm.minimum are instructions that order -0 < +0 (NVPTX, sm_80 and later)
  bool range_min = false;     // x86's vrangeps / vrangepd (AVX512DQ) on full vectors
};

class ElementLowering {
 public:
  // Emits at the builder's insertion point; both must outlive this object. The builder's fast-math flags must be empty.
  ElementLowering(llvm::IRBuilderBase& builder, ElementTarget target) : b(builder), target(target) {}

  // Lowers one element-wise op. `operands` all are scalars or all are vectors with the same number of lanes, in
  // register form; `type` is the element type of the operands (for `where`: of its second and third one). Gives the
  // register form of the result: `type`, or bool for Compare and Test ops. Composed ops are an InternalError. Narrow
  // floats are accepted: they are computed in f32 and rounded once.
  llvm::Value* op(ir::OpId id, Dtype type, std::span<llvm::Value* const> operands);

  // The op `convert`: see structural_ops.def. Exact rounding once, for every pair.
  llvm::Value* convert(llvm::Value* x, Dtype from, Dtype to, bool saturate = false);
  // The op `bitcast` between element types of one width.
  llvm::Value* bitcast(llvm::Value* x, Dtype from, Dtype to);

  // The LLVM type of an element in a register; lanes 0 is a scalar, otherwise a vector.
  llvm::Type* register_type(Dtype t, unsigned lanes = 0) const;
  // The same in memory: bool is i8, everything else as in a register.
  llvm::Type* memory_type(Dtype t, unsigned lanes = 0) const;
  llvm::Value* to_memory(llvm::Value* x, Dtype t);
  llvm::Value* from_memory(llvm::Value* x, Dtype t);

  // A constant from the element's storage bits.
  llvm::Constant* constant_bits(Dtype t, std::uint64_t bits, unsigned lanes = 0) const;

  // --- For the lower_<fn> functions of the table, and for reductions.
  llvm::Value* minimum(llvm::Value* a, llvm::Value* c, Dtype t);  // a NaN wins
  llvm::Value* maximum(llvm::Value* a, llvm::Value* c, Dtype t);
  llvm::Value* fmin(llvm::Value* a, llvm::Value* c, Dtype t);  // a NaN is ignored
  llvm::Value* fmax(llvm::Value* a, llvm::Value* c, Dtype t);
  // A constant of x's type (or of its integer twin's): the same number in every lane.
  llvm::Constant* same(llvm::Value* x, double c) const;
  llvm::Constant* same_int(llvm::Value* x, std::uint64_t c) const;
  // x's type with its lanes' type replaced.
  llvm::Type* like(llvm::Value* x, llvm::Type* scalar) const;
  // The integer type of x's width and lanes.
  llvm::Type* int_like(llvm::Value* x) const;

  llvm::IRBuilderBase& b;
  const ElementTarget target;

 private:
  llvm::Value* decode_narrow(llvm::Value* bits, Dtype from);  // -> f32, exact
  llvm::Value* encode_narrow(llvm::Value* x, Dtype to);       // f32 or f64 -> narrow, rounded once
  llvm::Value* encode_by_integers(llvm::Value* x, Dtype to);
  llvm::Value* int_to_narrow(llvm::Value* x, Dtype from, Dtype to);
  llvm::Value* float_to_int(llvm::Value* x, Dtype to);
  llvm::Value* int_to_int(llvm::Value* x, Dtype from, Dtype to, bool saturate);
  llvm::Constant* constant_one(llvm::Value* x, Dtype t) const;
  llvm::Value* float_extremum(llvm::Value* a, llvm::Value* c, bool smaller);
  llvm::Value* range_instruction(llvm::Value* a, llvm::Value* c, bool smaller);
};

}  // namespace tileweave::codegen
