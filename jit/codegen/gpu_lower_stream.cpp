// Loops that load tiles for products: the loads run some iterations ahead, by cp.async into a ring of stages in shared
// memory, with one barrier an iteration. Part of the lowering of `for`.
// Requires of a load: its block is known from the loop's index alone, products are all that uses it, and nothing that
// the loop writes can be what it reads. Ensures: each iteration finds its tiles staged (GpuLowering::staged_), zeros
// where the view ends. What else the loop does is no concern of this: products may be chained, and other loads stay.
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <bit>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/volatile_access.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Region;
using ir::Value;

namespace {

constexpr int vector_bytes = 16;
constexpr int usual_stages = 4;
constexpr int most_held_words = 64;                  // registers for fragments that a loop does not change
constexpr std::int64_t most_held_bytes = 32 * 1024;  // the same in shared memory

// A scalar that can be worked out for an iteration to come: pure arithmetic on the loop's index and what is outside.
bool is_known_ahead(const Value* v, const Region& body) {
  if (v->def == nullptr) return v->region != &body || v == body.args[0];
  const Op& op = *v->def;
  if (op.parent != &body) return true;
  const bool cheap = ir::is_elementwise(op.id) || op.id == OpId::convert || op.id == OpId::bitcast ||
                     op.id == OpId::constant || op.id == OpId::program_id || op.id == OpId::num_programs ||
                     op.id == OpId::extent || op.id == OpId::stride;
  return cheap && v->type.rank == 0 &&
         std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* x) { return is_known_ahead(x, body); });
}

}  // namespace

bool writes_memory(const Op& op) {
  return op.id == OpId::external || ir::op_info(op.id).effects == ir::Effects::writes;
}

// --- which loads

bool GpuLowering::feeds_products(const Value* v, const Region& body) const {
  bool all = true, any = false;
  ir::for_each_op(body, [&](const Op& user) {
    for (std::size_t i = 0; i < user.operands.size(); ++i) {
      if (user.operands[i] != v) continue;
      any = true;
      if (user.id == OpId::dot) {
        all &= i < 2 && dots_.of(user) != nullptr;
      } else {
        all &= is_relabelling(user) && user.id != OpId::broadcast && feeds_products(user.results[0], body);
      }
    }
  });
  return all && any;
}

std::optional<StreamedLoad> GpuLowering::plan_streamed(const Op& load, const Op& loop) const {
  const Region& body = *loop.regions[0];
  const ir::Type& t = load.results[0]->type;
  const bool plain =
      load.attrs.get_int(ir::AttrKey::masked) == 0 && load.attrs.get_int(ir::AttrKey::pad) == 0 && !is_volatile(load);
  if (load.id != OpId::load || !plain || t.rank < 2 || !feeds_products(load.results[0], body)) return std::nullopt;
  for (int a = 0; a < t.rank; ++a) {
    if (!is_known_ahead(load.operands[static_cast<std::size_t>(1 + a)], body)) return std::nullopt;
  }
  const ViewSlots& view = views_.at(load.operands[0]);
  bool writes = false;
  ir::for_each_op(body, [&](const Op& op) { writes |= writes_memory(op); });
  if (writes && (!view.is_const || view.facts.may_alias)) return std::nullopt;
  const int bytes = dtype_bytes(t.elem), vector = vector_bytes / bytes;
  for (int axis = t.rank - 1; axis >= 0; --axis) {
    if ((view.facts.unit_stride >> axis & 1) == 0 || t.extents[static_cast<std::size_t>(axis)] % vector != 0) continue;
    std::vector<int> order{axis};
    for (int a = t.rank - 1; a >= 0; --a) {
      if (a != axis) order.push_back(a);
    }
    const std::vector<int> bits = shape_of(t).axis_bits();
    StreamedLoad s;
    s.op = &load;
    s.copies = ir::blocked_layout(bits, order, std::countr_zero(static_cast<unsigned>(vector)), c.warp_bits);
    s.tile = swizzled_tile(bits, axis, bytes);
    if (plan_vectors(s.copies, shape_of(t), view.facts, bytes, false).axis != axis) return std::nullopt;
    return s;
  }
  return std::nullopt;
}

std::optional<Stream> GpuLowering::plan_stream(const Op& loop) const {
  if (dots_.empty() || c.f.options.stages == 1) return std::nullopt;
  Stream s;
  s.loop = &loop;
  for (const auto& op : loop.regions[0]->ops) {
    if (op->id != OpId::load) continue;
    auto load = plan_streamed(*op, loop);
    if (!load) continue;
    load->at = s.stage_bytes;
    s.stage_bytes += (load->tile.bytes + tile_alignment - 1) / tile_alignment * tile_alignment;
    s.loads.push_back(std::move(*load));
  }
  if (s.loads.empty()) return std::nullopt;
  // A quarter is left for exchanges between the threads.
  s.stages = usual_number_of_stages(s, shared_limit(target_) * 3 / 4);
  ir::for_each_op(*loop.regions[0], [&](const Op& op) {
    const DotPlan* plan = dots_.of(op);
    s.feeds_warp_groups |= plan != nullptr && plan->has_warp_groups;
  });
  s.lagging = find_lagging(s);
  if (s.lagging != nullptr) s.lag = 2;
  return s.stages < 2 ? std::nullopt : std::optional(std::move(s));
}

int GpuLowering::usual_number_of_stages(const Stream& s, std::int64_t shared_bytes) const {
  if (c.f.options.stages > 0) return c.f.options.stages;
  return static_cast<int>(std::min<std::int64_t>(shared_bytes / s.stage_bytes, usual_stages));
}

// The loop's only product where the loop does nothing with the sum but add to it, and both operands stream: wgmma may
// then be waited for an iteration later.
const Op* GpuLowering::find_lagging(const Stream& s) const {
  const Region& body = *s.loop->regions[0];
  const Op* dot = nullptr;
  int dots = 0, uses = 0;
  ir::for_each_op(body, [&](const Op& op) {
    if (op.id == OpId::dot) dot = &op, ++dots;
  });
  if (dots != 1 || dot->parent != &body || s.stages < 3 || !s.feeds_warp_groups) return nullptr;
  // Nothing may touch the accumulator's registers in between: no conversion, no zeros for elements that do not exist.
  const Layout& sums = dots_.of(*dot)->accumulator;
  if (layout_of(dot->results[0]) != sums || layout_of(dot->operands[2]) != sums) return nullptr;
  if (shape_of(dot->results[0]->type).is_padded()) return nullptr;
  ir::for_each_op(body, [&](const Op& op) {
    for (const Value* x : op.operands) uses += x == dot->results[0] || x == dot->operands[2] ? 1 : 0;
  });
  const Op& end = *body.ops.back();
  bool is_carried = false;
  for (std::size_t i = 0; i < end.operands.size(); ++i) {
    is_carried |= end.operands[i] == dot->results[0] && body.args[i + 1] == dot->operands[2];
  }
  const auto streams = [&](std::size_t i) {
    Layout l = i == 0 ? dots_.of(*dot)->a : dots_.of(*dot)->b;
    const Value* root = root_of(dot->operands[i], l);
    return std::any_of(s.loads.begin(), s.loads.end(), [&](const StreamedLoad& x) { return x.op->results[0] == root; });
  };
  return is_carried && uses == 2 && streams(0) && streams(1) ? dot : nullptr;
}

// Operands that the loop does not change: a warp group's A goes to shared memory, other fragments to registers, as far
// as those go.
// Not to registers for wgmma: ptxas (13.0) gives away the registers of A after the product though the next iteration
// reads them again.
HeldOperands GpuLowering::hold_invariant_operands(const Op& loop) {
  std::vector<const Value*> in_memory;
  ir::for_each_op(*loop.regions[0], [&](const Op& op) {
    const DotPlan* plan = dots_.of(op);
    for (std::size_t i = 0; plan != nullptr && i < 2; ++i) {
      const Layout& fragments = i == 0 ? plan->a : plan->b;
      Layout l = fragments;
      const Value* root = root_of(op.operands[i], l);
      const bool is_outside = find(root, layout_of(root)) != nullptr || is_deferred(root);
      if (!is_outside || staged_.contains(root)) continue;
      if (plan->has_warp_groups && i == 0) {
        if (std::find(in_memory.begin(), in_memory.end(), root) == in_memory.end()) in_memory.push_back(root);
      } else if (fragments.registers() >> plan->how.packed_bits() <= most_held_words) {
        get(root, l);
      }
    }
  });
  return stage_for_loop(in_memory);
}

HeldOperands GpuLowering::stage_for_loop(const std::vector<const Value*>& values) {
  HeldOperands held;
  std::int64_t bytes = 0;
  std::vector<StagedTile> tiles;
  for (const Value* v : values) {
    const SharedTile tile = staging_tile(v);
    const std::int64_t needed = (tile.bytes + tile_alignment - 1) / tile_alignment * tile_alignment;
    if (bytes + needed > most_held_bytes) continue;  // staged in each iteration
    get(v);
    held.values.push_back(v);
    tiles.push_back({tile, c.i32(bytes)});
    bytes += needed;
  }
  if (held.values.empty()) return held;
  held.base = scratch_.reserve(bytes, tile_alignment);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    tiles[i].base = c.b.CreateAdd(tiles[i].base, c.i32(held.base));
    write_staged(held.values[i], tiles[i]);
    staged_[held.values[i]] = tiles[i];
  }
  c.call(PrimitiveId::fence_proxy_async, {c.site()});
  scratch_.barrier();
  return held;
}

void GpuLowering::release_held(const HeldOperands& held) {
  if (held.values.empty()) return;
  for (const Value* v : held.values) staged_.erase(v);
  scratch_.release(held.base);
}

// --- the copies

// A scalar at the index that the innermost scope gives the loop.
void GpuLowering::lower_ahead(const Value* v) {
  if (v->type.is_view() || v->def == nullptr || find(v, scalar_layout_) != nullptr) return;
  for (const Value* x : v->def->operands) lower_ahead(x);
  lower_op(*v->def);
}

void GpuLowering::copy_tile(const StreamedLoad& load, BlockAccess& a, llvm::Value* base, bool by_vectors) {
  std::vector<std::uint64_t> bases;
  for (ir::Place4 p : {ir::Place4::lane, ir::Place4::warp}) {
    for (const std::uint64_t b : load.copies.bases(p)) bases.push_back(load.tile.offset(b));
  }
  SharedAddress address(c, base, bases);
  llvm::Value* first = c.is_first(load.copies.free_mask(ir::Place4::lane), load.copies.free_mask(ir::Place4::warp));
  llvm::BasicBlock* end = nullptr;
  if (first != nullptr) {
    llvm::BasicBlock* copies = c.new_block("copies");
    end = c.new_block("copied");
    c.b.CreateCondBr(first, copies, end);
    c.b.SetInsertPoint(copies);
  }
  for (int r = 0; r < load.copies.registers(); ++r) {
    if (!a.leads_group(r)) continue;
    llvm::Value* to = address.at(load.tile.offset(load.copies.apply(static_cast<std::uint64_t>(r))));
    by_vectors ? a.copy_vector(r, to) : a.copy_singly(r, to);
  }
  if (end == nullptr) return;
  c.b.CreateBr(end);
  c.b.SetInsertPoint(end);
}

// Asks for the tiles of the iteration with this index.
void GpuLowering::copy_stage(const Stream& s, llvm::Value* index, llvm::Value* stage) {
  open_scope();
  set(s.loop->regions[0]->args[0], {index});
  for (const StreamedLoad& load : s.loads) {
    c.enter_op(*load.op);
    for (int axis = 0; axis < load.copies.rank(); ++axis) {
      lower_ahead(load.op->operands[static_cast<std::size_t>(1 + axis)]);
    }
    BlockAccess a(c, block_of(*load.op), load.copies, shape_of(load.op->results[0]->type));
    llvm::Value* base = c.b.CreateAdd(stage, c.i32(load.at));
    llvm::Value* can_copy = a.can_copy();
    if (can_copy == nullptr) {
      copy_tile(load, a, base, true);
      continue;
    }
    a.prepare();
    llvm::BasicBlock *fast = c.new_block("vectors"), *slow = c.new_block("singly"), *join = c.new_block("asked");
    c.b.CreateCondBr(can_copy, fast, slow);
    c.b.SetInsertPoint(fast);
    copy_tile(load, a, base, true);
    c.b.CreateBr(join);
    c.b.SetInsertPoint(slow);
    copy_tile(load, a, base, false);
    c.b.CreateBr(join);
    c.b.SetInsertPoint(join);
  }
  close_scope();
}

// --- the ring

void GpuLowering::begin_stream(Stream& s, llvm::Value* first) {
  has_streams_ = true;
  for (const StreamedLoad& load : s.loads) {
    GlobalAccess access = global_access(*load.op, true);
    access.layout = nullptr;  // whoever copies an element is not who would load it
    order_.before(access, scratch_);
  }
  s.base = scratch_.reserve(s.stage_bytes * s.stages, tile_alignment);
  llvm::Value* index = first;
  for (int i = 0; i < s.stages - s.lag; ++i) {
    llvm::BasicBlock *ask = c.new_block("ask"), *asked = c.new_block("asked");
    c.b.CreateCondBr(c.b.CreateICmpULT(c.i64(i), s.trips), ask, asked);
    c.b.SetInsertPoint(ask);
    copy_stage(s, index, c.i32(s.base + i * s.stage_bytes));
    c.b.CreateBr(asked);
    c.b.SetInsertPoint(asked);
    c.call(PrimitiveId::async_commit, {c.site()});
    index = c.b.CreateAdd(index, s.step);
  }
}

llvm::Value* GpuLowering::next_stage(const Stream& s, llvm::Value* stage) {
  llvm::Value* next = c.b.CreateAdd(stage, c.i32(s.stage_bytes));
  llvm::Value* is_end = c.b.CreateICmpEQ(next, c.i32(s.base + s.stages * s.stage_bytes));
  return c.b.CreateSelect(is_end, c.i32(s.base), next);
}

void GpuLowering::advance_stream(const Stream& s, llvm::Value* count, llvm::Value* index, llvm::Value* stage) {
  c.call(PrimitiveId::async_wait, {c.i32(s.stages - s.lag - 1), c.site()});
  if (s.feeds_warp_groups) c.call(PrimitiveId::fence_proxy_async, {c.site()});
  // Everybody's copies have landed, and nobody reads the stage `lag` before this one any more: it is the next to fill.
  scratch_.barrier();
  scratch_.restart();
  llvm::BasicBlock *ask = c.new_block("ask"), *asked = c.new_block("asked");
  llvm::Value* ahead = c.b.CreateAdd(count, c.i64(s.stages - s.lag));
  c.b.CreateCondBr(c.b.CreateICmpULT(ahead, s.trips), ask, asked);
  c.b.SetInsertPoint(ask);
  const std::int64_t back = s.lag * s.stage_bytes;
  llvm::Value* wraps = c.b.CreateICmpULT(stage, c.i32(s.base + back));
  llvm::Value* ring = c.i32(s.stages * s.stage_bytes - back);
  llvm::Value* filled = c.b.CreateSelect(wraps, c.b.CreateAdd(stage, ring), c.b.CreateSub(stage, c.i32(back)));
  copy_stage(s, c.b.CreateAdd(index, c.b.CreateMul(s.step, c.i64(s.stages - s.lag))), filled);
  c.b.CreateBr(asked);
  c.b.SetInsertPoint(asked);
  c.call(PrimitiveId::async_commit, {c.site()});
  lagging_ = s.lagging;
  for (const StreamedLoad& load : s.loads) {
    staged_[load.op->results[0]] = {load.tile, c.b.CreateAdd(stage, c.i32(load.at))};
  }
}

void GpuLowering::end_stream(const Stream& s) {
  if (!s.is_ring) c.call(PrimitiveId::async_wait, {c.i32(0), c.site()});
  lagging_ = nullptr;
  for (const StreamedLoad& load : s.loads) staged_.erase(load.op->results[0]);
  scratch_.release(s.base);
}

}  // namespace tileweave::codegen
