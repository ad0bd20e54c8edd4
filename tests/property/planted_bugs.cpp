// See planted_bugs.h: each mistake is a small rewriting of the calls of primitives, or of the arithmetic around them.
// The module is as the lowering left it, before any optimisation.
#include "tests/property/planted_bugs.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "tileweave/jit/codegen/primitives.h"

namespace tileweave::property {
namespace {

using codegen::PrimitiveId;
using llvm::CallInst;

std::vector<CallInst*> calls(llvm::Module& m, PrimitiveId id) {
  std::vector<CallInst*> out;
  for (llvm::Function& f : m) {
    for (llvm::Instruction& i : llvm::instructions(f)) {
      auto* call = llvm::dyn_cast<CallInst>(&i);
      if (call == nullptr || call->getCalledFunction() == nullptr) continue;
      const llvm::StringRef name = call->getCalledFunction()->getName();
      const auto use = codegen::primitive_from_name({name.data(), name.size()});
      if (use && use->id == id) out.push_back(call);
    }
  }
  return out;
}

template <class I>
std::vector<I*> instructions_of(llvm::Module& m) {
  std::vector<I*> out;
  for (llvm::Function& f : m) {
    for (llvm::Instruction& i : llvm::instructions(f)) {
      if (auto* wanted = llvm::dyn_cast<I>(&i)) out.push_back(wanted);
    }
  }
  return out;
}

// An argument, changed in every call.
using Change = std::function<llvm::Value*(llvm::IRBuilder<>&, CallInst&, llvm::Value*)>;
std::function<bool(llvm::Module&)> change_argument(PrimitiveId id, unsigned index, Change change) {
  return [=](llvm::Module& m) {
    bool any = false;
    for (CallInst* call : calls(m, id)) {
      llvm::IRBuilder<> b(call);
      llvm::Value* old = call->getArgOperand(index);
      llvm::Value* changed = change(b, *call, old);
      if (changed == old) continue;
      call->setArgOperand(index, changed);
      any = true;
    }
    return any;
  };
}

std::function<bool(llvm::Module&)> change_result(PrimitiveId id, Change change) {
  return [=](llvm::Module& m) {
    bool any = false;
    for (CallInst* call : calls(m, id)) {
      llvm::IRBuilder<> b(call->getNextNode());
      llvm::Value* changed = change(b, *call, call);
      if (changed == call) continue;
      call->replaceUsesWithIf(changed, [&](llvm::Use& u) { return u.getUser() != changed; });
      any = true;
    }
    return any;
  };
}

std::function<bool(llvm::Module&)> drop(PrimitiveId id, const std::function<bool(std::size_t, std::size_t)>& which) {
  return [=](llvm::Module& m) {
    const std::vector<CallInst*> all = calls(m, id);
    bool any = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!which(i, all.size())) continue;
      all[i]->eraseFromParent();
      any = true;
    }
    return any;
  };
}

std::uint64_t bytes_of(const llvm::Type* t) { return t->getPrimitiveSizeInBits() / 8; }
bool is_constant(const llvm::Value* v) { return llvm::isa<llvm::Constant>(v); }

// One factor of an `and` of conditions, or true: a condition forgotten.
llvm::Value* forget_one(llvm::IRBuilder<>& b, CallInst&, llvm::Value* predicate) {
  if (is_constant(predicate)) return predicate;
  auto* both = llvm::dyn_cast<llvm::BinaryOperator>(predicate);
  if (both != nullptr && both->getOpcode() == llvm::Instruction::And) return both->getOperand(0);
  return b.getTrue();
}
llvm::Value* always(llvm::IRBuilder<>& b, CallInst&, llvm::Value* predicate) {
  return is_constant(predicate) ? predicate : b.getTrue();
}

// A comparison with an extent that lets one more through.
bool loosen_comparisons(llvm::Module& m) {
  bool any = false;
  for (auto* c : instructions_of<llvm::ICmpInst>(m)) {
    if (!c->getOperand(0)->getType()->isIntegerTy(64) && !c->getOperand(0)->getType()->isIntegerTy(32)) continue;
    const bool is_mask = !c->hasOneUse() || !llvm::isa<llvm::BranchInst>(c->user_back());
    if (!is_mask) continue;
    if (c->getPredicate() == llvm::CmpInst::ICMP_SLT) c->setPredicate(llvm::CmpInst::ICMP_SLE), any = true;
    if (c->getPredicate() == llvm::CmpInst::ICMP_ULT) c->setPredicate(llvm::CmpInst::ICMP_ULE), any = true;
  }
  return any;
}

bool depends_on_thread(const llvm::Value* v, int depth = 4) {
  if (const auto* call = llvm::dyn_cast<CallInst>(v)) {
    return call->getCalledFunction() != nullptr && call->getCalledFunction()->getName() == "tw.thread_id";
  }
  const auto* i = llvm::dyn_cast<llvm::BinaryOperator>(v);
  return i != nullptr && depth > 0 &&
         (depends_on_thread(i->getOperand(0), depth - 1) || depends_on_thread(i->getOperand(1), depth - 1));
}

// Constant shifts and masks of the thread's number, by one bit.
bool shift_layout(llvm::Module& m, llvm::Instruction::BinaryOps op, std::int64_t by) {
  bool any = false;
  for (auto* i : instructions_of<llvm::BinaryOperator>(m)) {
    auto* amount = llvm::dyn_cast<llvm::ConstantInt>(i->getOperand(1));
    if (i->getOpcode() != op || amount == nullptr || !depends_on_thread(i->getOperand(0))) continue;
    i->setOperand(1,
                  llvm::ConstantInt::get(amount->getType(), amount->getZExtValue() + static_cast<std::uint64_t>(by)));
    any = true;
  }
  return any;
}

// Lane 0 alone comes to the barrier.
bool diverge_barriers(llvm::Module& m) {
  const std::vector<CallInst*> all = calls(m, PrimitiveId::block_barrier);
  for (CallInst* call : all) {
    llvm::BasicBlock* before = call->getParent();
    llvm::BasicBlock* at = before->splitBasicBlock(call);
    llvm::BasicBlock* after = at->splitBasicBlock(call->getNextNode());
    before->getTerminator()->eraseFromParent();
    llvm::IRBuilder<> b(before);
    llvm::Value* lane = b.CreateCall(codegen::declare_primitive(m, PrimitiveId::lane_id));
    b.CreateCondBr(b.CreateICmpEQ(lane, b.getInt32(0)), at, after);
  }
  return !all.empty();
}

// Wide accesses take their elements in another order.
bool swap_vector_elements(llvm::Module& m) {
  bool any = false;
  for (CallInst* call : calls(m, PrimitiveId::global_load)) {
    for (llvm::User* u : call->users()) {
      auto* e = llvm::dyn_cast<llvm::ExtractElementInst>(u);
      if (e == nullptr) continue;
      const auto* index = llvm::cast<llvm::ConstantInt>(e->getIndexOperand());
      e->setOperand(1, llvm::ConstantInt::get(index->getType(), index->getZExtValue() ^ 1));
      any = true;
    }
  }
  return any;
}

// Invalid lanes take part in a reduction: `select valid, x, identity` gives x.
bool lose_identities(llvm::Module& m) {
  bool any = false;
  for (auto* s : instructions_of<llvm::SelectInst>(m)) {
    if (!is_constant(s->getFalseValue()) || is_constant(s->getTrueValue())) continue;
    s->replaceAllUsesWith(s->getTrueValue());
    any = true;
  }
  return any;
}

// a * b + c rounded twice.
bool split_fma(llvm::Module& m) {
  bool any = false;
  for (auto* i : instructions_of<llvm::IntrinsicInst>(m)) {
    if (i->getIntrinsicID() != llvm::Intrinsic::fma) continue;
    llvm::IRBuilder<> b(i);
    i->replaceAllUsesWith(b.CreateFAdd(b.CreateFMul(i->getOperand(0), i->getOperand(1)), i->getOperand(2)));
    any = true;
  }
  return any;
}

// 32-bit indices widened without their sign, or offsets cut to 8 bits on the way.
bool cut_index(llvm::Module& m) {
  bool any = false;
  for (auto* z : instructions_of<llvm::CastInst>(m)) {
    if (!z->getSrcTy()->isIntegerTy(32) || !z->getDestTy()->isIntegerTy(64)) continue;
    llvm::IRBuilder<> b(z);
    z->setOperand(0, b.CreateAnd(z->getOperand(0), b.getInt32(0x7f)));
    any = true;
  }
  return any;
}

// Lanes of a vector in another order.
Change reordered(std::vector<int> order) {
  return [order = std::move(order)](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) {
    return b.CreateShuffleVector(v, order);
  };
}

// ldmatrix that forgets to transpose.
bool forget_transposition(llvm::Module& m) {
  const std::vector<CallInst*> all = calls(m, PrimitiveId::ldmatrix_trans);
  for (CallInst* call : all) {
    const llvm::StringRef name = call->getCalledFunction()->getName();
    const auto use = codegen::primitive_from_name({name.data(), name.size()});
    call->setCalledFunction(codegen::declare_primitive(m, PrimitiveId::ldmatrix, use->element));
  }
  return !all.empty();
}

bool swap_coordinates(llvm::Module& m) {
  const std::vector<CallInst*> all = calls(m, PrimitiveId::tma_load);
  for (CallInst* call : all) {
    llvm::Value* x = call->getArgOperand(3);
    call->setArgOperand(3, call->getArgOperand(4));
    call->setArgOperand(4, x);
  }
  return !all.empty();
}

}  // namespace

std::vector<PlantedBug> planted_bugs() {
  const auto all = [](std::size_t, std::size_t) { return true; };
  const auto first = [](std::size_t i, std::size_t) { return i == 0; };
  const auto second = [](std::size_t i, std::size_t) { return i == 1; };
  const Change nothing = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value*) { return b.getInt32(0); };
  const Change other_phase = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) { return b.CreateXor(v, 1); };
  const Change at_most_one = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value*) { return b.getInt32(1); };
  const auto last = [](std::size_t i, std::size_t n) { return n > 1 && i % (n / 3 == 0 ? n : n / 3) == n / 3 - 1; };
  const auto plus = [](std::int64_t by) -> Change {
    return [by](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) {
      return b.CreateAdd(v, llvm::ConstantInt::get(v->getType(), static_cast<std::uint64_t>(by)));
    };
  };
  // A shared offset by one element, wrapped into the memory that is in use.
  const Change next_element = [](llvm::IRBuilder<>& b, CallInst& call, llvm::Value* v) {
    llvm::Type* t = call.getType()->isVoidTy() ? call.getArgOperand(1)->getType() : call.getType();
    return b.CreateXor(v, b.getInt32(static_cast<std::uint32_t>(bytes_of(t))));
  };
  const Change other_swizzle = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) {
    // Row bits xor'ed into the column: what a store with a swizzle and a load without it do.
    return is_constant(v) ? v : b.CreateXor(v, b.CreateAnd(b.CreateLShr(v, 3), b.getInt32(16)));
  };
  const Change mirrored = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) { return b.CreateXor(v, b.getInt32(3)); };
  const Change halved = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) {
    return is_constant(v) ? v : b.CreateAnd(v, b.getInt32(15));
  };
  const Change first_of_pair = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) {
    return b.CreateAnd(v, llvm::ConstantInt::get(v->getType(), ~std::uint64_t{1}));
  };
  const Change lane_only = [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) {
    return b.CreateAnd(v, b.getInt32(31));
  };
  const Change own_value = [](llvm::IRBuilder<>&, CallInst& call, llvm::Value*) { return call.getArgOperand(0); };
  const Change next_address = [](llvm::IRBuilder<>& b, CallInst& call, llvm::Value* v) {
    llvm::Type* t = call.getType()->isVoidTy() ? call.getArgOperand(1)->getType() : call.getType();
    return b.CreateAdd(v, b.getInt64(bytes_of(t)));
  };
  return {
      {"every block barrier is missing", drop(PrimitiveId::block_barrier, all)},
      {"the last block barrier of each version is missing", drop(PrimitiveId::block_barrier, last)},
      {"every warp barrier is missing", drop(PrimitiveId::warp_barrier, all)},
      {"a barrier under a condition", diverge_barriers},
      {"shared stores one element off", change_argument(PrimitiveId::shared_store, 0, next_element)},
      {"shared loads one element off", change_argument(PrimitiveId::shared_load, 0, next_element)},
      {"loads with another swizzle than stores", change_argument(PrimitiveId::shared_load, 0, other_swizzle)},
      {"scratch of two exchanges overlaps", change_argument(PrimitiveId::shared_store, 0, halved)},
      {"the mask of shared stores is dropped", change_argument(PrimitiveId::shared_store, 2, always)},
      {"butterfly with a wrong mask", change_argument(PrimitiveId::shuffle_bfly, 1, mirrored)},
      {"one exchange of a warp reduction is missing", change_result(PrimitiveId::shuffle_bfly, own_value)},
      {"the mask of loads is dropped", change_argument(PrimitiveId::global_load, 1, always)},
      {"the mask of stores is dropped", change_argument(PrimitiveId::global_store, 2, always)},
      {"one axis is missing from the mask of stores", change_argument(PrimitiveId::global_store, 2, forget_one)},
      {"the edge is off by one", loosen_comparisons},
      {"loads one element off", change_argument(PrimitiveId::global_load, 0, next_address)},
      {"stores four bytes off", change_argument(PrimitiveId::global_store, 0, plus(4))},
      {"a vector's elements in another order", swap_vector_elements},
      {"all warps take the first warp's part", change_result(PrimitiveId::thread_id, lane_only)},
      {"every other block does its neighbour's work", change_result(PrimitiveId::block_id, first_of_pair)},
      {"the layout's shifts are off by one",
       [](llvm::Module& m) { return shift_layout(m, llvm::Instruction::Shl, 1); }},
      {"the layout's masks lose a bit", [](llvm::Module& m) { return shift_layout(m, llvm::Instruction::And, -1); }},
      {"invalid lanes take part in reductions", lose_identities},
      {"fma is rounded twice", split_fma},
      {"indices are cut short", cut_index},
      {"fragments are read with another swizzle", change_argument(PrimitiveId::ldmatrix, 0, other_swizzle)},
      {"fragments are not transposed", forget_transposition},
      {"the words of a fragment in another order", change_argument(PrimitiveId::mma_f16, 0, reordered({0, 2, 1, 3}))},
      {"the rows of an accumulator swapped", change_result(PrimitiveId::mma_f16, reordered({2, 3, 0, 1}))},
      {"copies are not waited for", drop(PrimitiveId::async_wait, all)},
      {"copies are waited for one stage too late", change_argument(PrimitiveId::async_wait, 0, plus(1))},
      {"copies land with another swizzle", change_argument(PrimitiveId::async_copy, 0, other_swizzle)},
      {"wgmma is waited for one group too late", change_argument(PrimitiveId::wgmma_wait, 0, plus(1))},
      {"what is copied is not shown to wgmma", drop(PrimitiveId::fence_proxy_async, all)},
      {"the bytes of a stage are not expected", change_argument(PrimitiveId::mbarrier_arrive_expect, 1, nothing)},
      {"the bytes of one box are not expected", change_argument(PrimitiveId::mbarrier_arrive_expect, 1, plus(-4096))},
      {"stages are waited for in the wrong phase", change_argument(PrimitiveId::mbarrier_wait, 1, other_phase)},
      {"the producer does not wait for empty stages", drop(PrimitiveId::mbarrier_wait, first)},
      {"the consumers do not wait for full stages", drop(PrimitiveId::mbarrier_wait, second)},
      {"stages are not released", drop(PrimitiveId::mbarrier_arrive, all)},
      {"stages are released by one warp for all", change_argument(PrimitiveId::mbarrier_init, 1, at_most_one)},
      {"boxes land in another line of the swizzle", change_argument(PrimitiveId::tma_load, 0, plus(128))},
      {"boxes begin one element off", change_argument(PrimitiveId::tma_load, 3, plus(1))},
      {"rows and columns of a box are swapped", swap_coordinates},
      {"a descriptor one row group off",
       change_argument(PrimitiveId::wgmma_ss, 2,
                       [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) { return b.CreateAdd(v, b.getInt64(2)); })},
      {"copies past the edge bring what is there",
       change_argument(PrimitiveId::async_copy, 2,
                       [](llvm::IRBuilder<>& b, CallInst&, llvm::Value* v) {
                         return is_constant(v) ? v : static_cast<llvm::Value*>(b.getInt32(16));
                       })},
  };
}

}  // namespace tileweave::property
