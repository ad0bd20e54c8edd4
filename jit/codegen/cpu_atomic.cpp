// Atomics on the CPU: element by element, an instruction where there is one, else a loop of compare-and-swap.
// Called by cpu_region.cpp; the operands are in scratch buffers (or registers, for single elements).
#include <array>

#include "tileweave/jit/codegen/cpu_context.h"
#include "tileweave/jit/codegen/cpu_whole.h"

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op, ir::OpId;
using llvm::AtomicOrdering, llvm::AtomicRMWInst, llvm::Value;

namespace {

AtomicOrdering ordering(const std::string& word) {
  if (word == "acquire") return AtomicOrdering::Acquire;
  if (word == "release") return AtomicOrdering::Release;
  return word == "acq_rel" ? AtomicOrdering::AcquireRelease : AtomicOrdering::Monotonic;
}

class Atomic {
 public:
  Atomic(Context& c, const Op& op)
      : c_(c), op_(op), type_(op.results[0]->type), order_(ordering(op.attrs.get_text(AttrKey::order))) {
    bits_ = c.b.getIntNTy(8 * Context::element_bytes(type_));
  }

  void lower() {
    const ir::Value* mask = op_.attrs.get_int(AttrKey::masked) != 0 ? op_.operands.back() : nullptr;
    const std::size_t operands = op_.operands.size();
    std::array<Value*, 4> where{};
    for (std::size_t i = 0; i < operands; ++i) where[i] = evaluated_in_memory(c_, op_.operands[i]);
    const Buffer result = c_.new_buffer(type_);
    emit_loop(c_, c_.i64(0), c_.i64(type_.elements()), 1, [&](Value* i) {
      llvm::BasicBlock *takes = c_.new_block("atomic"), *next = c_.new_block("next");
      store(result.base, i, llvm::Constant::getNullValue(bits_));
      Value* on = mask == nullptr ? c_.b.getTrue() : element(mask, where[operands - 1], i);
      c_.b.CreateCondBr(on, takes, next);
      c_.b.SetInsertPoint(takes);
      Value* address = element(op_.operands[0], where[0], i);
      const std::size_t values = operands - (mask == nullptr ? 1 : 2);
      std::array<Value*, 2> x{};
      for (std::size_t k = 0; k < values; ++k) x[k] = element(op_.operands[1 + k], where[1 + k], i);
      store(result.base, i, op_.id == OpId::atomic_cas ? exchange(address, x) : modify(address, x[0]));
      c_.b.CreateBr(next);
      c_.b.SetInsertPoint(next);
    });
    if (is_unit(op_.results[0])) {
      c_.units[op_.results[0]] = element(op_.results[0], result.base, c_.i64(0));
    } else {
      c_.buffers[op_.results[0]] = result;
    }
  }

 private:
  Value* element(const ir::Value* v, Value* base, Value* i) {
    Value* at = c_.b.CreateGEP(c_.memory_type(v->type), base, i);
    Value* x = c_.b.CreateAlignedLoad(c_.memory_type(v->type), at, llvm::Align(Context::element_bytes(v->type)));
    return c_.from_memory(x, v->type);
  }
  void store(Value* base, Value* i, Value* bits) {
    c_.b.CreateAlignedStore(bits, c_.b.CreateGEP(bits_, base, i), llvm::Align(Context::element_bytes(type_)));
  }
  Value* to_bits(Value* x) { return c_.b.CreateBitCast(c_.to_memory(x, type_), bits_); }
  Value* from_bits(Value* x) { return c_.from_memory(c_.b.CreateBitCast(x, c_.memory_type(type_)), type_); }
  llvm::Align align() const { return llvm::Align(Context::element_bytes(type_)); }

  Value* exchange(Value* address, const std::array<Value*, 2>& x) {
    const auto failure = llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order_);
    Value* pair = c_.b.CreateAtomicCmpXchg(address, to_bits(x[0]), to_bits(x[1]), align(), order_, failure);
    return c_.b.CreateExtractValue(pair, 0U);
  }

  Value* modify(Value* address, Value* x) {
    const std::string& how = op_.attrs.get_text(AttrKey::combine);
    if (how == "xchg") return c_.b.CreateAtomicRMW(AtomicRMWInst::Xchg, address, to_bits(x), align(), order_);
    if (!is_float(type_.elem)) {
      const bool is_signed_type = is_signed(type_.elem);
      const auto op = how == "sum"   ? AtomicRMWInst::Add
                      : how == "min" ? (is_signed_type ? AtomicRMWInst::Min : AtomicRMWInst::UMin)
                      : how == "max" ? (is_signed_type ? AtomicRMWInst::Max : AtomicRMWInst::UMax)
                      : how == "and" ? AtomicRMWInst::And
                      : how == "or"  ? AtomicRMWInst::Or
                                     : AtomicRMWInst::Xor;
      return c_.b.CreateAtomicRMW(op, address, to_bits(x), align(), order_);
    }
    return by_swaps(address, x, how == "sum" ? OpId::add : how == "min" ? OpId::minimum : OpId::maximum);
  }

  Value* by_swaps(Value* address, Value* x, OpId op) {
    llvm::BasicBlock *before = c_.b.GetInsertBlock(), *loop = c_.new_block("swap"), *done = c_.new_block("swapped");
    llvm::LoadInst* first = c_.b.CreateAlignedLoad(bits_, address, align());
    first->setAtomic(AtomicOrdering::Monotonic);
    c_.b.CreateBr(loop);
    c_.b.SetInsertPoint(loop);
    llvm::PHINode* seen = c_.b.CreatePHI(bits_, 2);
    seen->addIncoming(first, before);
    Value* operands[] = {from_bits(seen), x};
    Value* wanted = to_bits(c_.e.op(op, type_.elem, operands));
    const auto failure = llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order_);
    Value* pair = c_.b.CreateAtomicCmpXchg(address, seen, wanted, align(), order_, failure);
    seen->addIncoming(c_.b.CreateExtractValue(pair, 0U), c_.b.GetInsertBlock());
    c_.b.CreateCondBr(c_.b.CreateExtractValue(pair, 1U), done, loop);
    c_.b.SetInsertPoint(done);
    return seen;
  }

  Context& c_;
  const Op& op_;
  const ir::Type type_;
  const AtomicOrdering order_;
  llvm::Type* bits_ = nullptr;
};

}  // namespace

void lower_atomic(Context& c, const Op& op) { Atomic(c, op).lower(); }

}  // namespace tileweave::codegen::cpu
