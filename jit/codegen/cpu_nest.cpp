// The loops of a nest: axes, ranges, versions, unrolled vector bodies and their remainders. See cpu_nest.h.
// Called by cpu_region.cpp for each group of tasks of the plan.
#include "tileweave/jit/codegen/cpu_nest.h"

#include <algorithm>
#include <bit>

namespace tileweave::codegen::cpu {

using llvm::Value;

namespace {
// In whole vectors.
constexpr std::int64_t long_loop = 16;
}  // namespace

void lower_nest(Context& c, const std::vector<Task>& tasks, const std::vector<Buffer>& targets,
                const std::vector<Fetch>& fetches) {
  Nest(c, tasks, targets, fetches).emit();
}

Nest::Nest(Context& c, const std::vector<Task>& tasks, const std::vector<Buffer>& targets,
           const std::vector<Fetch>& fetches)
    : c_(c), tasks_(tasks), targets_(targets), fetches_(fetches), space_(tasks[0].space), bounds_(tasks[0].bounds) {
  for (const Task& t : tasks) {
    Walk walk(c.planner.kept());
    const AxisMap m = identity_map(space_.rank);
    walk.from(t.value, m, t.kind == Task::Kind::keep && t.yield < 0);
    if (t.op != nullptr && t.op->id == ir::OpId::store_ptr) walk.from(t.op->operands[0], m);
    for (const auto& [mask, map] : t.masks) walk.from(mask, map);
    reach_.push_back(walk.found());
  }
}

void Nest::emit() {
  choose_loops();
  lanes_ = choose_lanes();
  copies_ = choose_copies();
  find_uncovered();
  find_ranges();
  prepare_results();
  llvm::BasicBlock* skipped = nullptr;
  if (guard_ != nullptr) {
    llvm::BasicBlock* body = c_.new_block("guarded");
    skipped = c_.new_block("skipped");
    c_.b.CreateCondBr(guard_, body, skipped);
    c_.b.SetInsertPoint(body);
  }
  emit_versions();
  if (skipped != nullptr) {
    c_.b.CreateBr(skipped);
    c_.b.SetInsertPoint(skipped);
  }
  finish_results();
}

void Nest::emit_versions() {
  if (uncovered_.empty()) return emit_version(true);
  llvm::BasicBlock *fast = c_.new_block("fast"), *slow = c_.new_block("slow"), *done = c_.new_block("done");
  c_.b.CreateCondBr(covered_condition(), fast, slow);
  c_.b.SetInsertPoint(fast);
  emit_version(true);
  c_.b.CreateBr(done);
  c_.b.SetInsertPoint(slow);
  emit_version(false);
  c_.b.CreateBr(done);
  c_.b.SetInsertPoint(done);
}

// The vectors lie along the last axis that is longer than 1. A reduction of another axis runs inside the vector loop,
// so that its accumulators stay in registers.
void Nest::choose_loops() {
  const auto rank = static_cast<std::size_t>(space_.rank);
  index_.assign(rank, c_.i64(0));
  position_.assign(rank, 0);
  for (int k = 0; k < space_.rank; ++k) {
    if (space_.extents[static_cast<std::size_t>(k)] != 1) vector_axis_ = k;
  }
  for (const Task& t : tasks_) {
    if (t.reduce_axis >= 0 && t.reduce_axis != vector_axis_) inner_axis_ = t.reduce_axis;
  }
  for (int k = 0; k < space_.rank; ++k) {
    if (space_.extents[static_cast<std::size_t>(k)] != 1 && k != vector_axis_ && k != inner_axis_) order_.push_back(k);
  }
  order_.push_back(vector_axis_);
  if (inner_axis_ >= 0) order_.push_back(inner_axis_);
  for (std::size_t i = 0; i < order_.size(); ++i) position_[static_cast<std::size_t>(order_[i])] = i + 1;
}

// As many lanes as fit a vector of the widest element that is computed with; 64-bit index arithmetic may take two
// vectors beside that.
unsigned Nest::choose_lanes() const {
  int widest = 0, index = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const auto take = [&](const ir::Type& t) {
      if (is_bool(t.elem) && !t.is_pointer()) return;
      const bool is_index = t.is_pointer() || t.elem == Dtype::i64 || t.elem == Dtype::u64;
      const int bits = t.is_pointer() ? 64 : dtype_info(t.elem).bits;
      (is_index ? index : widest) = std::max(is_index ? index : widest, bits);
    };
    take(tasks_[i].value->type);
    for (const auto& [v, map] : reach_[i].lazy) take(v->type);
    for (const auto& [v, map] : reach_[i].buffers) take(v->type);
  }
  if (widest == 0) widest = index == 0 ? 8 : index;
  const auto fit = c_.machine.vector_bits / static_cast<unsigned>(widest);
  const auto extent = static_cast<std::uint64_t>(space_.extents[static_cast<std::size_t>(vector_axis_)]);
  return static_cast<unsigned>(std::min<std::uint64_t>(fit, std::bit_ceil(extent)));
}

// Cheap bodies are unrolled to hide the loop and the latency of accumulators; long ones, whose chains fill the
// scheduler before they overlap, where the loop is long enough to pay for compiling two.
int Nest::choose_copies() const {
  int cost = 0;
  for (const Task& t : tasks_) cost += cost_of(t.value, c_.planner.kept());
  const std::int64_t extent = space_.extents[static_cast<std::size_t>(vector_axis_)];
  int copies = cost <= 6 ? 4 : cost <= 16 || extent >= long_loop * static_cast<std::int64_t>(lanes_) ? 2 : 1;
  while (copies > 1 && copies * static_cast<std::int64_t>(lanes_) > extent) copies /= 2;
  return copies;
}

// --- which lanes

Value* Nest::bound_limit(const Bound& bound, bool high) {
  Value*& limit = limits_[{bound.view, bound.view_axis, bound.offset, high}];
  if (limit != nullptr) return limit;
  Value* offset = c_.unit(bound.offset);
  Value* end = high ? c_.view(bound.view).extents[static_cast<std::size_t>(bound.view_axis)] : c_.i64(0);
  const auto *x = llvm::dyn_cast<llvm::ConstantInt>(end), *y = llvm::dyn_cast<llvm::ConstantInt>(offset);
  std::int64_t known = 0;
  if (x != nullptr && y != nullptr && !__builtin_sub_overflow(x->getSExtValue(), y->getSExtValue(), &known)) {
    limit = c_.i64(known);
  } else {
    limit = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, end, offset);
  }
  return limit;
}

// The bounds that every task has become shorter loops.
void Nest::find_ranges() {
  for (int k = 0; k < space_.rank; ++k) {
    ranges_.push_back({c_.i64(0), c_.i64(space_.extents[static_cast<std::size_t>(k)])});
  }
  for (const Bound& bound : bounds_) {
    Value *lo = bound_limit(bound, false), *hi = bound_limit(bound, true);
    if (bound.nest_axis < 0 || position_[static_cast<std::size_t>(bound.nest_axis)] == 0) {
      Value* holds = c_.b.CreateAnd(c_.b.CreateICmpSLE(lo, c_.i64(0)), c_.b.CreateICmpSGE(hi, c_.i64(1)));
      guard_ = guard_ == nullptr ? holds : c_.b.CreateAnd(guard_, holds);
      continue;
    }
    Range& r = ranges_[static_cast<std::size_t>(bound.nest_axis)];
    r.lo = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, r.lo, lo);
    r.hi = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, r.hi, hi);
  }
  for (const Bound& bound : uncovered_) {
    bound_limit(bound, false);
    bound_limit(bound, true);
  }
}

// Blocks that are not known to hold all the lanes the loops visit: tested once for all of them, with a version of the
// nest for either outcome.
void Nest::find_uncovered() {
  for (const Reach& reach : reach_) {
    for (const auto& [v, map] : reach.lazy) {
      if (v->def->id != ir::OpId::load && v->def->id != ir::OpId::inside) continue;
      for (const Bound& bound : bounds_of(*v->def, map)) {
        if (!contains(bounds_, bound) && !contains(uncovered_, bound)) uncovered_.push_back(bound);
      }
    }
  }
}

Value* Nest::covered_condition() {
  Value* all = c_.b.getTrue();
  for (const Bound& bound : uncovered_) {
    const bool has_loop = bound.nest_axis >= 0 && position_[static_cast<std::size_t>(bound.nest_axis)] != 0;
    const Range r = has_loop ? range_of(bound.nest_axis) : Range{c_.i64(0), c_.i64(1)};
    all = c_.b.CreateAnd(all, c_.b.CreateICmpSGE(r.lo, bound_limit(bound, false)));
    all = c_.b.CreateAnd(all, c_.b.CreateICmpSLE(r.hi, bound_limit(bound, true)));
  }
  return all;
}

// --- results

void Nest::prepare_results() {
  for (const Task& t : tasks_) {
    buffers_.emplace_back();
    unit_slots_.push_back(nullptr);
    if (t.kind == Task::Kind::keep) {
      buffers_.back() = t.yield >= 0 ? targets_[static_cast<std::size_t>(t.yield)] : c_.new_buffer(t.value->type);
    }
    if (t.reduce_axis < 0) continue;
    const ir::Value* result = t.op->results[0];
    if (is_unit(result)) {
      unit_slots_.back() = c_.slot(c_.register_type(result->type));
      c_.b.CreateStore(result_of(t, identity(t, 0)), unit_slots_.back());
    } else {
      buffers_.back() = c_.new_buffer(result->type);
      if (needs_fill(t)) fill_result(t, buffers_.back());
    }
  }
}

void Nest::finish_results() {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& t = tasks_[i];
    if (t.kind == Task::Kind::keep && t.yield < 0) c_.buffers[t.value] = buffers_[i];
    if (t.reduce_axis < 0) continue;
    const ir::Value* result = t.op->results[0];
    if (unit_slots_[i] != nullptr) {
      c_.units[result] = c_.b.CreateLoad(unit_slots_[i]->getAllocatedType(), unit_slots_[i]);
    } else {
      c_.buffers[result] = buffers_[i];
    }
  }
}

// --- loops

// A block that values of the current loop level are computed in, whenever they turn out to be needed.
void Nest::open_level() {
  llvm::BasicBlock *level = c_.new_block("level"), *inside = c_.new_block("inside");
  c_.b.CreateBr(level);
  c_.b.SetInsertPoint(level);
  c_.b.CreateBr(inside);
  c_.b.SetInsertPoint(inside);
  levels_.push_back(level);
}

void Nest::close_level(std::size_t level) {
  std::erase_if(known_, [&](const auto& k) { return k.second.level >= level; });
  std::erase_if(rows_, [&](const auto& r) { return std::get<2>(r.first) >= level; });
  if (levels_.size() > level) levels_.resize(level);
}

void Nest::emit_version(bool fast) {
  fast_ = fast;
  const unsigned lanes = lanes_;
  const bool has_lane_masks =
      std::any_of(tasks_.begin(), tasks_.end(), [](const Task& t) { return !t.masks.empty(); }) ||
      std::any_of(reach_.begin(), reach_.end(), [](const Reach& r) {
        return std::any_of(r.lazy.begin(), r.lazy.end(),
                           [](const auto& l) { return mask_of(*l.first->def) != nullptr; });
      });
  if (!c_.machine.has_masks && (!fast || has_lane_masks)) lanes_ = 1;
  open_level();
  emit_outer(0);
  close_level(0);
  lanes_ = lanes;
}

void Nest::emit_outer(std::size_t depth) {
  const std::size_t remaining = order_.size() - depth;
  if (inner_axis_ >= 0 && remaining == 2) return emit_columns();
  if (remaining == 1) return emit_vectors();
  const int axis = order_[depth];
  const Range r = range_of(axis);
  emit_loop(c_, r.lo, r.hi, 1, [&](Value* i) {
    index_[static_cast<std::size_t>(axis)] = i;
    open_level();
    emit_outer(depth + 1);
    close_level(depth + 1);
  });
}

Value* Nest::tail_mask(Value* first, Value* end, unsigned lanes) {
  Value* left = c_.b.CreateTrunc(c_.b.CreateSub(end, first), c_.b.getInt32Ty());
  Value* number = lane_numbers(c_.b.getInt32Ty());
  return c_.b.CreateICmpULT(number, c_.b.CreateVectorSplat(lanes, left));
}

// The innermost loop along the vectors: unrolled whole vectors, then the rest, masked or one by one.
void Nest::emit_vectors() {
  const Range r = range_of(vector_axis_);
  const unsigned lanes = lanes_ == 1 ? 0 : lanes_;
  begin_reductions(lanes, copies_);
  Value* i = r.lo;
  if (lanes != 0) {
    const std::int64_t step = static_cast<std::int64_t>(lanes) * copies_;
    i = emit_whole_vectors(r, lanes, step);
    merge_copies(copies_);
    if (c_.machine.has_masks) {
      emit_loop(c_, i, r.hi, static_cast<std::int64_t>(lanes),
                [&](Value* first) { emit_bodies(lanes, 1, first, tail_mask(first, r.hi, lanes)); });
      fold_lanes();
      return put_results();
    }
    fold_lanes();
  }
  emit_loop(c_, i, r.hi, 1, [&](Value* first) { emit_bodies(0, 1, first, nullptr); });
  put_results();
}

// The unrolled loop, twice where results may be streamed.
Value* Nest::emit_whole_vectors(const Range& r, unsigned lanes, std::int64_t step) {
  Value* last = c_.b.CreateSub(r.hi, c_.i64(step - 1));
  const auto loop = [&](bool streams) {
    return emit_loop(c_, r.lo, last, step, [&](Value* first) { emit_bodies(lanes, copies_, first, nullptr, streams); });
  };
  Value* condition = streaming_condition(lanes);
  if (condition == nullptr) return loop(false);
  llvm::BasicBlock *streamed = c_.new_block("streamed"), *cached = c_.new_block("cached"), *done = c_.new_block("done");
  c_.b.CreateCondBr(condition, streamed, cached);
  c_.b.SetInsertPoint(streamed);
  Value* first_end = loop(true);
  streamed = c_.b.GetInsertBlock();
  c_.b.CreateBr(done);
  c_.b.SetInsertPoint(cached);
  Value* second_end = loop(false);
  cached = c_.b.GetInsertBlock();
  c_.b.CreateBr(done);
  c_.b.SetInsertPoint(done);
  if (llvm::isa<llvm::Constant>(first_end)) return first_end;  // the same on both sides
  llvm::PHINode* end = c_.b.CreatePHI(c_.b.getInt64Ty(), 2);
  end->addIncoming(first_end, streamed);
  end->addIncoming(second_end, cached);
  return end;
}

// Results too large for the caches are written past them: that saves reading each line first (measured: a quarter off
// a copy and an addition, a tenth off a gelu). It takes whole, aligned vectors, and a nest that reads no kept values:
// those keep the lines it writes waiting. Null where no store can.
Value* Nest::streaming_condition(unsigned lanes) {
  Value* all = nullptr;
  for (const Reach& reach : reach_) {
    if (!reach.buffers.empty()) return nullptr;
  }
  for (const Task& t : tasks_) {
    if (t.kind != Task::Kind::store || t.op->id != ir::OpId::store || !t.masks.empty()) continue;
    const ir::Type& type = t.value->type;
    const ViewArgument& view = c_.view(t.op->operands[0]);
    const unsigned bytes = lanes * Context::element_bytes(type);
    if (c_.machine.streaming_bytes == 0 || bytes < 32 || (view.facts.unit_stride >> vector_axis_ & 1) == 0) continue;
    body_ = {lanes, range_of(vector_axis_).lo, nullptr, 0, false};
    Value* address = c_.b.CreatePtrToInt(view_place(*t.op, identity_map(space_.rank)).address, c_.b.getInt64Ty());
    Value* holds = c_.b.CreateICmpEQ(c_.b.CreateAnd(address, c_.i64(bytes - 1)), c_.i64(0));
    if (t.op->attrs.get_text(ir::AttrKey::hint) != "streaming") {
      Value* size = c_.i64(Context::element_bytes(type));
      for (Value* extent : view.extents) size = c_.b.CreateMul(size, extent);
      holds = c_.b.CreateAnd(holds, c_.b.CreateICmpUGE(size, c_.i64(c_.machine.streaming_bytes)));
    }
    all = all == nullptr ? holds : c_.b.CreateAnd(all, holds);
  }
  if (all != nullptr) c_.has_streams = true;
  return all;
}

void Nest::emit_bodies(unsigned lanes, int copies, Value* first, Value* active, bool streams) {
  for (int u = 0; u < copies; ++u) {
    Value* base = u == 0 ? first : c_.b.CreateAdd(first, c_.i64(static_cast<std::int64_t>(lanes) * u));
    body_ = {lanes, base, active, u, streams};
    index_[static_cast<std::size_t>(vector_axis_)] = base;
    emit_tasks();
    if (lanes != 0 && active == nullptr && fast_) emit_fetches();
  }
  close_level(order_.size());
}

// A reduction of another axis: for a few vectors at a time, run down that axis.
void Nest::emit_columns() {
  const Range r = range_of(vector_axis_);
  const unsigned lanes = lanes_ == 1 ? 0 : lanes_;
  Value* i = r.lo;
  if (lanes != 0) {
    const std::int64_t step = static_cast<std::int64_t>(lanes) * copies_;
    i = emit_loop(c_, i, c_.b.CreateSub(r.hi, c_.i64(step - 1)), step,
                  [&](Value* first) { emit_column_chunk(lanes, copies_, first, nullptr); });
    if (c_.machine.has_masks) {
      emit_loop(c_, i, r.hi, static_cast<std::int64_t>(lanes),
                [&](Value* first) { emit_column_chunk(lanes, 1, first, tail_mask(first, r.hi, lanes)); });
      return;
    }
  }
  emit_loop(c_, i, r.hi, 1, [&](Value* first) { emit_column_chunk(0, 1, first, nullptr); });
}

void Nest::emit_column_chunk(unsigned lanes, int copies, Value* first, Value* active) {
  copy_bases_.clear();
  for (int u = 0; u < copies; ++u) {
    copy_bases_.push_back(u == 0 ? first : c_.b.CreateAdd(first, c_.i64(static_cast<std::int64_t>(lanes) * u)));
  }
  index_[static_cast<std::size_t>(vector_axis_)] = first;
  open_level();
  begin_reductions(lanes, copies);
  const Range r = range_of(inner_axis_);
  emit_loop(c_, r.lo, r.hi, 1, [&](Value* k) {
    index_[static_cast<std::size_t>(inner_axis_)] = k;
    for (int u = 0; u < copies; ++u) {
      body_ = {lanes, copy_bases_[static_cast<std::size_t>(u)], active, u, false};
      index_[static_cast<std::size_t>(vector_axis_)] = body_.base;
      emit_tasks();
    }
    close_level(order_.size());
  });
  finish_columns(lanes, copies, active);
  close_level(order_.size() - 1);
}

void Nest::emit_tasks() {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    switch (tasks_[i].kind) {
      case Task::Kind::store:
        emit_store(tasks_[i]);
        break;
      case Task::Kind::keep:
        emit_keep(tasks_[i], i);
        break;
      case Task::Kind::reduce:
      case Task::Kind::arg_reduce:
        emit_reduce(tasks_[i], i);
        break;
      case Task::Kind::whole:
        break;  // has no nest: see cpu_dot.cpp
    }
  }
}

}  // namespace tileweave::codegen::cpu
