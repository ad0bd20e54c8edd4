// Warp specialisation of a streaming loop: one warp more than compute asks TMA for the tiles, into a ring of stages
// with a full and an empty mbarrier each; the others wait for full ones and arrive at empty ones. Part of the lowering
// of `for`, on sm_90a. Requires: the function's only streaming loop stands in its body, warp groups multiply what it
// loads, nothing before it writes memory, and whatever the loads need follows from the parameters and the program's
// place: then the producer starts at once, and works it out itself. Ensures what gpu_lower_stream.cpp does, without a
// barrier in the loop. Facts: PTX ISA 8.3, "cp.async.bulk.tensor", "mbarrier"; the limits of cuTensorMapEncodeTiled.
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/llvm_setup.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::codegen {

using ir::Op;
using ir::OpId;
using ir::Region;
using ir::Value;

namespace {

constexpr int most_box_extent = 256;
constexpr int warps_of_group = 4;
// Three warp groups begin with 168 each: 40 + 2 * 232 = 3 * 168.
constexpr int registers_of_producer = 40, registers_of_consumers = 232;
constexpr std::int64_t barrier_bytes = 1024;  // keeps the stages aligned
constexpr int most_stages = barrier_bytes / 16;

// The op, or what is inside it.
bool writes(const Op& op) {
  bool any = writes_memory(op);
  for (const auto& r : op.regions) ir::for_each_op(*r, [&](const Op& x) { any |= writes_memory(x); });
  return any;
}

// A row of the tile in shared memory: at most a line of the swizzle.
std::int64_t row_elements(const SharedTile& tile, std::int64_t extent) {
  constexpr std::int64_t line = 128;
  return std::min(extent, line / tile.element_bytes);
}

}  // namespace

// --- which loop

// The box of a load: rows of up to 128 bytes, then the other axes in the order that the tile has. Facts must say that
// every launch of this kernel can have the map.
std::optional<TensorMapPlan> GpuLowering::plan_map(const StreamedLoad& load) const {
  const ir::Type& t = load.op->results[0]->type;
  const ViewSlots& view = views_.at(load.op->operands[0]);
  const ir::ViewFacts& facts = view.facts;
  if (t.rank > TensorMapPlan::most_axes || !facts.aligned_base || !facts.offsets_fit_32) return std::nullopt;
  if (shape_of(t).is_padded()) return std::nullopt;
  TensorMapPlan plan;
  plan.slot = view.slot;
  plan.rank = t.rank;
  plan.element_bytes = load.tile.element_bytes;
  std::size_t n = 0;
  const auto add = [&](int axis, std::int64_t extent) {
    plan.axes[n] = axis;
    plan.extents[n++] = static_cast<int>(extent);
    return extent <= most_box_extent;
  };
  const int unit = load.tile.unit_axis;
  const std::int64_t row = row_elements(load.tile, t.extents[static_cast<std::size_t>(unit)]);
  plan.swizzle_bytes = static_cast<int>(row) * plan.element_bytes;
  if (plan.swizzle_bytes < 32 || !add(unit, row)) return std::nullopt;
  for (int a = t.rank - 1; a >= 0; --a) {
    if (a == unit) continue;
    const bool has_pitch = (facts.aligned_stride >> a & 1) != 0 && (facts.zero_stride >> a & 1) == 0;
    if (!has_pitch || !add(a, t.extents[static_cast<std::size_t>(a)])) return std::nullopt;
  }
  return plan;
}

bool GpuLowering::is_known_to_producer(const Value* v, const Region& body) const {
  if (v == body.args[0] || is_known_early(v)) return true;
  if (v->def == nullptr || v->def->parent != &body || v->type.rank != 0) return false;
  const OpId id = v->def->id;
  if (!ir::is_elementwise(id) && id != OpId::convert && id != OpId::constant) return false;
  return std::all_of(v->def->operands.begin(), v->def->operands.end(),
                     [&](const Value* x) { return is_known_to_producer(x, body); });
}

// What a loop of more than one product exchanges needs room, and so do the results while a ring stays.
void GpuLowering::choose_ring_stages(Stream& s) const {
  const std::int64_t limit =
      shared_limit(target_) - 2 * barrier_bytes - (s.is_persistent ? stored_bytes() : std::int64_t{0});
  s.stages = usual_number_of_stages(s, limit);
  s.lagging = find_lagging(s);
  s.lag = s.lagging != nullptr ? 2 : 1;
  if (s.lagging == nullptr) s.stages = usual_number_of_stages(s, limit * 3 / 4);
}

std::optional<Stream> GpuLowering::plan_ring() {
  if (!target_.arch_specific || dots_.empty()) return std::nullopt;
  std::optional<Stream> s;
  int streams = 0;
  bool has_written = false;
  ir::for_each_op(c.f.body(), [&](const Op& op) {
    if (op.id == OpId::for_ && plan_stream(op)) ++streams;
  });
  if (streams != 1) return std::nullopt;
  for (const auto& op : c.f.body().ops) {
    if (op->id == OpId::for_) s = plan_stream(*op);
    if (s) break;
    has_written |= writes(*op);
  }
  if (!s || has_written || !s->feeds_warp_groups) return std::nullopt;
  const Region& body = *s->loop->regions[0];
  const auto known = [&](const Value* v) { return is_known_to_producer(v, body); };
  const auto first = s->loop->operands.begin();
  if (!std::all_of(first, first + 3, known)) return std::nullopt;
  std::vector<TensorMapPlan> maps;
  for (StreamedLoad& load : s->loads) {
    const auto offsets = load.op->operands.begin() + 1;
    const auto map = plan_map(load);
    if (!map || !std::all_of(offsets, offsets + map->rank, known)) return std::nullopt;
    load.map = static_cast<int>(maps.size());
    maps.push_back(*map);
  }
  // Four stages and a program a block are faster than three and persistence (128 x 256 x 64 on an H200: 0.95 and 0.92
  // of cuBLAS at 4096^3).
  const int least_persistent = c.f.options.stages > 0 ? 2 : usual_number_of_stages(*s, shared_limit(target_));
  s->is_persistent = may_persist_;
  choose_ring_stages(*s);
  if (s->is_persistent && s->stages < least_persistent) {
    s->is_persistent = false;
    choose_ring_stages(*s);
  }
  if (s->stages < 2 || s->stages > most_stages) return std::nullopt;
  s->is_ring = true;
  maps_ = std::move(maps);
  return s;
}

// --- before the body

// What the stores of the body exchange at once: with a ring that stays, it needs room of its own.
std::int64_t GpuLowering::stored_bytes() const {
  std::int64_t most = 0;
  for (const auto& op : c.f.body().ops) {
    if (op->id != OpId::store) continue;
    const ir::Type& t = op->operands[static_cast<std::size_t>(1 + op->operands[0]->type.rank)]->type;
    most = std::max(most, t.elements() * dtype_bytes(t.elem));
  }
  return most;
}

void GpuLowering::begin_ring() {
  if (!ring_->is_persistent) {
    lower_program_ids();
  } else {
    c.end_prologue();
  }
  has_streams_ = true;
  // Two warp groups that compute are to have more than an equal share of the registers, which whole warp groups give
  // away.
  const bool moves_registers = c.warps == 2 * warps_of_group;
  c.producer_warps = moves_registers ? warps_of_group : 1;
  c.enter_op(*ring_->loop);
  ring_->barriers = scratch_.reserve(barrier_bytes, tile_alignment);
  ring_->base = scratch_.reserve(ring_->stage_bytes * ring_->stages, tile_alignment);
  make_barriers(*ring_);
  llvm::BasicBlock *producer = c.new_block("producer"), *consumers = c.new_block("consumers");
  c.b.CreateCondBr(c.b.CreateICmpUGE(c.warp(), c.i32(c.warps)), producer, consumers);
  c.b.SetInsertPoint(producer);
  if (moves_registers) {
    llvm::BasicBlock* loads = c.new_block("loads");
    c.call(PrimitiveId::set_registers_down, {c.i32(registers_of_producer), c.site()});
    c.b.CreateCondBr(c.b.CreateICmpEQ(c.warp(), c.i32(c.warps)), loads, c.exit);
    c.b.SetInsertPoint(loads);
  }
  produce(*ring_);
  c.b.CreateBr(c.exit);
  c.b.SetInsertPoint(consumers);
  if (moves_registers) c.call(PrimitiveId::set_registers_up, {c.i32(registers_of_consumers), c.site()});
  if (ring_->is_persistent) begin_programs();
}

// The consumers' loop over programs: what leaves a program goes on to the next.
void GpuLowering::begin_programs() {
  llvm::IRBuilder<> entry(&*c.kernel->getEntryBlock().getFirstInsertionPt());
  ring_->next_slot = entry.CreateAlloca(c.b.getInt32Ty());
  ring_->next_parity = entry.CreateAlloca(c.b.getInt32Ty());
  c.b.CreateStore(c.i32(0), ring_->next_slot);
  c.b.CreateStore(c.i32(0), ring_->next_parity);
  llvm::Value *first = c.call(PrimitiveId::block_id, {}), *total = number_of_programs();
  llvm::BasicBlock *before = c.b.GetInsertBlock(), *head = c.new_block("programs"), *inside = c.new_block("program");
  c.b.CreateBr(head);
  c.b.SetInsertPoint(head);
  program_ = c.b.CreatePHI(c.b.getInt64Ty(), 2);
  program_->addIncoming(first, before);
  c.b.CreateCondBr(c.b.CreateICmpULT(program_, total), inside, c.exit);
  kernel_end_ = std::exchange(c.exit, c.new_block("next_program"));
  c.b.SetInsertPoint(inside);
  scratch_.forget();
  place_program(program_);
}

void GpuLowering::end_ring() {
  if (!ring_->is_persistent) return;
  c.b.SetInsertPoint(c.exit);
  program_->addIncoming(c.b.CreateAdd(program_, c.call(PrimitiveId::block_count, {})), c.exit);
  c.b.CreateBr(program_->getParent());
  c.exit = kernel_end_;
}

llvm::Value* GpuLowering::full_barrier(const Stream& s, llvm::Value* slot) {
  return c.b.CreateAdd(c.b.CreateShl(slot, 3), c.i32(s.barriers));
}
llvm::Value* GpuLowering::empty_barrier(const Stream& s, llvm::Value* slot) {
  return c.b.CreateAdd(c.b.CreateShl(slot, 3), c.i32(s.barriers + 8 * s.stages));
}

// A stage is full when the producer has arrived and all bytes have; empty when each consuming warp has arrived.
void GpuLowering::make_barriers(const Stream& s) {
  llvm::BasicBlock *make = c.new_block("barriers"), *made = c.new_block("ready");
  c.b.CreateCondBr(c.b.CreateICmpEQ(c.thread(), c.i32(0)), make, made);
  c.b.SetInsertPoint(make);
  for (int i = 0; i < s.stages; ++i) {
    c.call(PrimitiveId::mbarrier_init, {full_barrier(s, c.i32(i)), c.i32(1), c.site()});
    c.call(PrimitiveId::mbarrier_init, {empty_barrier(s, c.i32(i)), c.i32(c.warps), c.site()});
  }
  c.call(PrimitiveId::fence_mbarrier_init, {c.site()});
  c.call(PrimitiveId::fence_proxy_async, {c.site()});
  c.b.CreateBr(made);
  c.b.SetInsertPoint(made);
  c.call(PrimitiveId::block_barrier, {c.site()});
}

// --- the producer

void GpuLowering::produce(const Stream& s) {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    auto* address = llvm::cast<llvm::Instruction>(c.b.CreateFreeze(llvm::PoisonValue::get(c.b.getInt64Ty())));
    map_addresses_.push_back(address);
    c.call(PrimitiveId::tma_prefetch, {address, c.b.CreateICmpEQ(c.lane(), c.i32(0)), c.site()});
  }
  llvm::BasicBlock *start = c.new_block("start"), *done = c.new_block("produced");
  c.b.CreateCondBr(c.call(PrimitiveId::elect, {c.site()}), start, done);
  c.b.SetInsertPoint(start);
  // The phase before the first counts as complete: the ring begins empty.
  RingPlace place{c.i32(0), c.i32(1)};
  if (!s.is_persistent) {
    produce_program(s, place);
    c.b.CreateBr(done);
    c.b.SetInsertPoint(done);
    return;
  }
  llvm::Value *first = c.call(PrimitiveId::block_id, {}), *total = number_of_programs();
  llvm::BasicBlock *head = c.new_block("produce_programs"), *inside = c.new_block("produce_program");
  c.b.CreateBr(head);
  c.b.SetInsertPoint(head);
  llvm::PHINode* program = c.b.CreatePHI(c.b.getInt64Ty(), 2);
  llvm::PHINode *slot = c.b.CreatePHI(c.b.getInt32Ty(), 2), *parity = c.b.CreatePHI(c.b.getInt32Ty(), 2);
  program->addIncoming(first, start);
  slot->addIncoming(place.slot, start);
  parity->addIncoming(place.parity, start);
  c.b.CreateCondBr(c.b.CreateICmpULT(program, total), inside, done);
  c.b.SetInsertPoint(inside);
  place_program(program);
  place = {slot, parity};
  produce_program(s, place);
  program->addIncoming(c.b.CreateAdd(program, c.call(PrimitiveId::block_count, {})), c.b.GetInsertBlock());
  slot->addIncoming(place.slot, c.b.GetInsertBlock());
  parity->addIncoming(place.parity, c.b.GetInsertBlock());
  c.b.CreateBr(head);
  c.b.SetInsertPoint(done);
}

// The loads of one program; `place` is where the ring stands before and after.
void GpuLowering::produce_program(const Stream& s, RingPlace& place) {
  const Op& loop = *s.loop;
  open_scope();
  for (std::size_t i = 0; i < 3; ++i) lower_early(loop.operands[i]);
  llvm::Value *lo = scalar(loop.operands[0]), *step = scalar(loop.operands[2]);
  llvm::Value* trips = trip_count(c, lo, scalar(loop.operands[1]), step);
  llvm::BasicBlock *start = c.b.GetInsertBlock(), *head = c.new_block("produce"), *fill = c.new_block("fill"),
                   *done = c.new_block("produced_program");
  c.b.CreateBr(head);
  c.b.SetInsertPoint(head);
  llvm::PHINode *count = c.b.CreatePHI(c.b.getInt64Ty(), 2), *index = c.b.CreatePHI(c.b.getInt64Ty(), 2);
  llvm::PHINode *slot = c.b.CreatePHI(c.b.getInt32Ty(), 2), *parity = c.b.CreatePHI(c.b.getInt32Ty(), 2);
  count->addIncoming(c.i64(0), start);
  index->addIncoming(lo, start);
  slot->addIncoming(place.slot, start);
  parity->addIncoming(place.parity, start);
  c.b.CreateCondBr(c.b.CreateICmpNE(count, trips), fill, done);
  c.b.SetInsertPoint(fill);
  c.call(PrimitiveId::mbarrier_wait, {empty_barrier(s, slot), parity, c.site()});
  fill_stage(s, index, slot);
  llvm::Value* next = next_slot(s, slot);
  llvm::Value* flips = c.b.CreateZExt(c.b.CreateICmpEQ(next, c.i32(0)), c.b.getInt32Ty());
  llvm::BasicBlock* last = c.b.GetInsertBlock();
  count->addIncoming(c.b.CreateAdd(count, c.i64(1)), last);
  index->addIncoming(c.b.CreateAdd(index, step), last);
  slot->addIncoming(next, last);
  parity->addIncoming(c.b.CreateXor(parity, flips), last);
  c.b.CreateBr(head);
  c.b.SetInsertPoint(done);
  close_scope();
  place = {slot, parity};
}

void GpuLowering::fill_stage(const Stream& s, llvm::Value* index, llvm::Value* slot) {
  llvm::Value* full = full_barrier(s, slot);
  std::int64_t bytes = 0;
  for (const StreamedLoad& load : s.loads) bytes += load.tile.bytes;
  c.call(PrimitiveId::mbarrier_arrive_expect, {full, c.i32(bytes), c.b.getTrue(), c.site()});
  llvm::Value* stage = c.b.CreateAdd(c.b.CreateMul(slot, c.i32(s.stage_bytes)), c.i32(s.base));
  open_scope();
  set(s.loop->regions[0]->args[0], {index});
  for (const StreamedLoad& load : s.loads) {
    c.enter_op(*load.op);
    for (int axis = 0; axis < load.copies.rank(); ++axis) {
      lower_ahead(load.op->operands[static_cast<std::size_t>(1 + axis)]);
    }
    load_boxes(load, c.b.CreateAdd(stage, c.i32(load.at)), full);
  }
  close_scope();
}

// One box a panel. Coordinates are 32 bits: a block that begins further away lies outside wherever it is put outside.
void GpuLowering::load_boxes(const StreamedLoad& load, llvm::Value* stage, llvm::Value* full) {
  constexpr std::int64_t far = 0x7fff0000;
  const TensorMapPlan& map = maps_[static_cast<std::size_t>(load.map)];
  const ViewSlots& view = views_.at(load.op->operands[0]);
  llvm::Value* is_empty = c.b.getFalse();
  for (llvm::Value* extent : view.extents) is_empty = c.b.CreateOr(is_empty, c.b.CreateICmpEQ(extent, c.i64(0)));
  std::array<llvm::Value*, TensorMapPlan::most_axes> at{c.i32(0), c.i32(0), c.i32(0), c.i32(0), c.i32(0)};
  for (std::size_t i = 0; i < static_cast<std::size_t>(map.rank); ++i) {
    llvm::Value* x = scalar(load.op->operands[static_cast<std::size_t>(1 + map.axes[i])]);
    x = c.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, c.i64(-far));
    x = c.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, c.i64(far));
    at[i] = c.b.CreateSelect(is_empty, c.i32(far), c.b.CreateTrunc(x, c.b.getInt32Ty()));
  }
  const std::int64_t row = map.extents[0];
  const std::int64_t whole = load.op->results[0]->type.extents[static_cast<std::size_t>(load.tile.unit_axis)];
  const std::int64_t panel = load.tile.bytes / (whole / row);
  for (std::int64_t i = 0; i < whole / row; ++i) {
    c.call(PrimitiveId::tma_load,
           {c.b.CreateAdd(stage, c.i32(i * panel)), map_addresses_[static_cast<std::size_t>(load.map)], c.i32(map.rank),
            c.b.CreateAdd(at[0], c.i32(i * row)), at[1], at[2], at[3], at[4], full, c.i32(0), c.b.getTrue(), c.site()});
  }
}

// --- the consumers

llvm::Value* GpuLowering::next_slot(const Stream& s, llvm::Value* slot) {
  llvm::Value* next = c.b.CreateAdd(slot, c.i32(1));
  return c.b.CreateSelect(c.b.CreateICmpEQ(next, c.i32(s.stages)), c.i32(0), next);
}

void GpuLowering::begin_ring_loop(Stream& s, llvm::BasicBlock* before) {
  llvm::Value *slot = c.i32(0), *parity = c.i32(0);
  if (s.is_persistent) {
    llvm::IRBuilder<> at(before->getTerminator());
    slot = at.CreateLoad(at.getInt32Ty(), s.next_slot);
    parity = at.CreateLoad(at.getInt32Ty(), s.next_parity);
  }
  s.slot = c.b.CreatePHI(c.b.getInt32Ty(), 2);
  s.parity = c.b.CreatePHI(c.b.getInt32Ty(), 2);
  s.slot->addIncoming(slot, before);
  s.parity->addIncoming(parity, before);
}

// Behind the loop of a program that another one follows: the last stage is read as well.
void GpuLowering::leave_ring_loop(const Stream& s) {
  lagging_ = nullptr;
  for (const StreamedLoad& load : s.loads) staged_.erase(load.op->results[0]);
  c.b.CreateStore(s.slot, s.next_slot);
  c.b.CreateStore(s.parity, s.next_parity);
  if (s.lagging != nullptr) leave_stage(s, s.trips);
}

void GpuLowering::enter_stage(const Stream& s) {
  c.call(PrimitiveId::mbarrier_wait, {full_barrier(s, s.slot), s.parity, c.site()});
  llvm::Value* stage = c.b.CreateAdd(c.b.CreateMul(s.slot, c.i32(s.stage_bytes)), c.i32(s.base));
  lagging_ = s.lagging;
  for (const StreamedLoad& load : s.loads) {
    staged_[load.op->results[0]] = {load.tile, c.b.CreateAdd(stage, c.i32(load.at))};
  }
}

// Nobody of this warp reads the stage any more: this iteration's, or where products are under way the one before.
void GpuLowering::leave_stage(const Stream& s, llvm::Value* count) {
  llvm::Value *slot = s.slot, *arrives = c.b.CreateICmpEQ(c.lane(), c.i32(0));
  if (s.lagging != nullptr) {
    llvm::Value* wraps = c.b.CreateICmpEQ(slot, c.i32(0));
    slot = c.b.CreateSelect(wraps, c.i32(s.stages - 1), c.b.CreateSub(slot, c.i32(1)));
    arrives = c.b.CreateAnd(arrives, c.b.CreateICmpNE(count, c.i64(0)));
  } else {
    c.call(PrimitiveId::warp_barrier, {c.site()});
  }
  c.call(PrimitiveId::mbarrier_arrive, {empty_barrier(s, slot), arrives, c.site()});
}

void GpuLowering::advance_ring(const Stream& s, llvm::BasicBlock* last, llvm::Value* next) {
  llvm::Value* flips = c.b.CreateZExt(c.b.CreateICmpEQ(next, c.i32(0)), c.b.getInt32Ty());
  s.slot->addIncoming(next, last);
  s.parity->addIncoming(c.b.CreateXor(s.parity, flips), last);
}

// --- the kernel's parameters

// The kernel again with a parameter more for each tensor map, in the place of what stood for its address.
void GpuLowering::take_tensor_maps() {
  if (maps_.empty()) return;
  llvm::Function* old = c.kernel;
  std::vector<llvm::Type*> types(old->getFunctionType()->params());
  types.insert(types.end(), maps_.size(), c.b.getInt64Ty());
  llvm::Function* kernel = move_to_parameters(*old, types);
  for (unsigned i = 0; i < old->arg_size(); ++i) old->getArg(i)->replaceAllUsesWith(kernel->getArg(i));
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    map_addresses_[i]->replaceAllUsesWith(kernel->getArg(static_cast<unsigned>(old->arg_size() + i)));
    map_addresses_[i]->eraseFromParent();
  }
  old->eraseFromParent();
  c.kernel = kernel;
}

}  // namespace tileweave::codegen
