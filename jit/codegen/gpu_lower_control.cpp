// Lowering of for, if and while: carried tiles become phis, one a register.
// One of gpu_lower*.cpp. Conditions are scalars, so all threads of a block take the same way.
#include <llvm/IR/Constants.h>

#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Region;
using ir::Value;

namespace {

Regs phis_for(GpuContext& c, const Regs& from, llvm::BasicBlock* block) {
  Regs phis(from.size(), nullptr);
  for (std::size_t r = 0; r < from.size(); ++r) {
    if (from[r] == nullptr) continue;
    llvm::PHINode* phi = c.b.CreatePHI(from[r]->getType(), 2);
    phi->addIncoming(from[r], block);
    phis[r] = phi;
  }
  return phis;
}

void add_incoming(const Regs& phis, const Regs& from, llvm::BasicBlock* block) {
  for (std::size_t r = 0; r < phis.size(); ++r) {
    if (phis[r] != nullptr) llvm::cast<llvm::PHINode>(phis[r])->addIncoming(from[r], block);
  }
}

}  // namespace

void GpuLowering::lower_ops(const Region& r, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const Op& op = *r.ops[i];
    if (op.id != OpId::yield && op.id != OpId::condition) lower_op(op);
  }
}

// Before and after code that may run many times or not at all: nothing is known of scratch, what was pending before may
// still be, and so may its own accesses.
void GpuLowering::around_repeated(const Op& op, const GlobalOrder& before) {
  scratch_.forget();
  order_ = before;
  std::vector<GlobalAccess> accesses;
  for (const auto& r : op.regions) collect_accesses(*r, accesses);
  order_.assume(std::move(accesses));
}

// How many times a loop runs, as u64: (hi - lo - 1) / step + 1 in unsigned arithmetic, 0 where it does not run.
llvm::Value* trip_count(GpuContext& c, llvm::Value* lo, llvm::Value* hi, llvm::Value* step) {
  llvm::IRBuilder<>& b = c.b;
  const auto count = [&](llvm::Value* from, llvm::Value* to, llvm::Value* by) {
    llvm::Value* last = b.CreateSub(b.CreateSub(to, from), c.i64(1));
    llvm::Value* n = b.CreateAdd(b.CreateUDiv(last, by), c.i64(1));
    return b.CreateSelect(b.CreateICmpSLT(from, to), n, c.i64(0));
  };
  if (const auto* k = llvm::dyn_cast<llvm::ConstantInt>(step)) {
    if (k->isZero()) return c.i64(0);
    return k->isNegative() ? count(hi, lo, b.CreateNeg(step)) : count(lo, hi, step);
  }
  llvm::Value* down = b.CreateICmpSLT(step, c.i64(0));
  llvm::Value* none = b.CreateICmpEQ(step, c.i64(0));
  llvm::Value* size = b.CreateSelect(none, c.i64(1), b.CreateSelect(down, b.CreateNeg(step), step));
  llvm::Value* n = count(b.CreateSelect(down, hi, lo), b.CreateSelect(down, lo, hi), size);
  return b.CreateSelect(none, c.i64(0), n);
}

void GpuLowering::lower_for(const Op& op) {
  const Region& body = *op.regions[0];
  const GlobalOrder before_op = order_;
  llvm::Value *lo = scalar(op.operands[0]), *step = scalar(op.operands[2]);
  llvm::Value* trips = trip_count(c, lo, scalar(op.operands[1]), step);
  std::vector<Regs> inits;
  for (std::size_t i = 3; i < op.operands.size(); ++i) {
    inits.push_back(get(op.operands[i], layout_of(body.args[i - 2])));
  }
  const bool is_ring = ring_ && ring_->loop == &op;
  std::optional<Stream> stream = is_ring ? ring_ : plan_stream(op);
  const HeldOperands held = hold_invariant_operands(op);
  if (stream) {
    stream->step = step;
    stream->trips = trips;
    if (!is_ring) begin_stream(*stream, lo);
  }
  llvm::BasicBlock* before = c.b.GetInsertBlock();
  llvm::BasicBlock *head = c.new_block("for"), *loop = c.new_block("do"), *after = c.new_block("done");
  c.b.CreateBr(head);
  c.b.SetInsertPoint(head);
  llvm::PHINode *count = c.b.CreatePHI(c.b.getInt64Ty(), 2), *index = c.b.CreatePHI(c.b.getInt64Ty(), 2);
  count->addIncoming(c.i64(0), before);
  index->addIncoming(lo, before);
  llvm::PHINode* stage = stream && !is_ring ? c.b.CreatePHI(c.b.getInt32Ty(), 2) : nullptr;
  if (stage != nullptr) stage->addIncoming(c.i32(stream->base), before);
  if (is_ring) begin_ring_loop(*stream, before);
  std::vector<Regs> phis;
  for (const Regs& init : inits) phis.push_back(phis_for(c, init, before));
  c.b.CreateCondBr(c.b.CreateICmpNE(count, trips), loop, after);

  c.b.SetInsertPoint(loop);
  around_repeated(op, before_op);
  open_scope();
  set(body.args[0], {index});
  for (std::size_t i = 0; i < phis.size(); ++i) set(body.args[i + 1], phis[i]);
  if (stage != nullptr) advance_stream(*stream, count, index, stage);
  if (is_ring) enter_stage(*stream);
  lower_body(body);
  const Op& end = *body.ops.back();
  std::vector<Regs> next;
  for (std::size_t i = 0; i < phis.size(); ++i) next.push_back(get(end.operands[i], layout_of(body.args[i + 1])));
  close_scope();
  llvm::Value* next_of_ring = nullptr;
  if (stage != nullptr) next_of_ring = next_stage(*stream, stage);
  if (is_ring) {
    leave_stage(*stream, count);
    next_of_ring = next_slot(*stream, stream->slot);
  }
  llvm::BasicBlock* last = c.b.GetInsertBlock();
  if (stage != nullptr) stage->addIncoming(next_of_ring, last);
  if (is_ring) advance_ring(*stream, last, next_of_ring);
  count->addIncoming(c.b.CreateAdd(count, c.i64(1)), last);
  index->addIncoming(c.b.CreateAdd(index, step), last);
  for (std::size_t i = 0; i < phis.size(); ++i) add_incoming(phis[i], next[i], last);
  c.b.CreateBr(head);

  c.b.SetInsertPoint(after);
  around_repeated(op, before_op);
  if (stream && !is_ring) end_stream(*stream);
  release_held(held);
  if (is_ring && !stream->is_persistent) end_stream(*stream);
  for (std::size_t i = 0; i < phis.size(); ++i) {
    const bool lags = stream && stream->lagging != nullptr && stream->lagging->operands[2] == body.args[i + 1];
    if (lags) finish_wgmma(*stream->lagging, phis[i]);
  }
  if (is_ring && stream->is_persistent) leave_ring_loop(*stream);
  for (std::size_t i = 0; i < phis.size(); ++i) define(op.results[i], layout_of(body.args[i + 1]), phis[i]);
}

void GpuLowering::lower_if(const Op& op) {
  llvm::Value* condition = scalar(op.operands[0]);
  const GlobalOrder before_op = order_;
  llvm::BasicBlock* join = c.new_block("endif");
  std::array<llvm::BasicBlock*, 2> starts{c.new_block("then"), c.new_block("else")}, ends{};
  c.b.CreateCondBr(condition, starts[0], starts[1]);
  std::array<std::vector<Regs>, 2> yields;
  for (std::size_t i = 0; i < 2; ++i) {
    c.b.SetInsertPoint(starts[i]);
    around_repeated(op, before_op);
    open_scope();
    lower_body(*op.regions[i]);
    const Op& end = *op.regions[i]->ops.back();
    for (std::size_t k = 0; k < op.results.size(); ++k) {
      yields[i].push_back(get(end.operands[k], layout_of(op.results[k])));
    }
    close_scope();
    ends[i] = c.b.GetInsertBlock();
    c.b.CreateBr(join);
  }
  c.b.SetInsertPoint(join);
  around_repeated(op, before_op);
  for (std::size_t k = 0; k < op.results.size(); ++k) {
    const Regs phis = phis_for(c, yields[0][k], ends[0]);
    add_incoming(phis, yields[1][k], ends[1]);
    set(op.results[k], phis);
  }
}

void GpuLowering::lower_while(const Op& op) {
  const Region &test = *op.regions[0], &body = *op.regions[1];
  const GlobalOrder before_op = order_;
  std::vector<Regs> inits;
  for (std::size_t i = 0; i < op.operands.size(); ++i) inits.push_back(get(op.operands[i], layout_of(test.args[i])));
  llvm::BasicBlock* before = c.b.GetInsertBlock();
  llvm::BasicBlock *head = c.new_block("while"), *loop = c.new_block("do"), *after = c.new_block("done");
  c.b.CreateBr(head);
  c.b.SetInsertPoint(head);
  std::vector<Regs> phis;
  for (const Regs& init : inits) phis.push_back(phis_for(c, init, before));

  around_repeated(op, before_op);
  open_scope();
  for (std::size_t i = 0; i < phis.size(); ++i) set(test.args[i], phis[i]);
  lower_body(test);
  const Op& decision = *test.ops.back();
  llvm::Value* flag = scalar(decision.operands[0]);
  std::vector<Regs> into, out;
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    into.push_back(get(decision.operands[i + 1], layout_of(body.args[i])));
    out.push_back(get(decision.operands[i + 1], layout_of(op.results[i])));
  }
  close_scope();
  c.b.CreateCondBr(flag, loop, after);

  c.b.SetInsertPoint(loop);
  open_scope();
  for (std::size_t i = 0; i < into.size(); ++i) set(body.args[i], into[i]);
  lower_body(body);
  const Op& end = *body.ops.back();
  std::vector<Regs> next;
  for (std::size_t i = 0; i < phis.size(); ++i) next.push_back(get(end.operands[i], layout_of(test.args[i])));
  close_scope();
  for (std::size_t i = 0; i < phis.size(); ++i) add_incoming(phis[i], next[i], c.b.GetInsertBlock());
  c.b.CreateBr(head);

  c.b.SetInsertPoint(after);
  around_repeated(op, before_op);
  for (std::size_t i = 0; i < out.size(); ++i) set(op.results[i], out[i]);
}

}  // namespace tileweave::codegen
