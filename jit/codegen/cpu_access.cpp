// Memory at a point of a nest: blocks of views, pointers and scratch buffers, whole vectors or masked.
// Part of Nest: see cpu_nest.h. All address arithmetic is 64 bits wide.
#include <algorithm>

#include "tileweave/jit/codegen/cpu_nest.h"
#include "tileweave/jit/codegen/volatile_access.h"

namespace tileweave::codegen::cpu {

using ir::Op, ir::OpId;
using llvm::Value;

namespace {
// Blocks up to this size are fetched into the first-level cache, beside this program's.
constexpr std::int64_t first_level_block = 8 << 10;
}  // namespace

// --- where

// The address of a block's element with the vectors' index left at 0, computed level by level, each as far out as its
// index allows.
Value* Nest::view_row(const Op& op, const AxisMap& m, std::size_t level) {
  Value*& row = rows_[{&op, m.axis, level}];
  if (row != nullptr) return row;
  const ViewArgument& view = c_.view(op.operands[0]);
  llvm::Type* element = c_.e.memory_type(op.operands[0]->type.elem);
  const std::size_t rank = view.extents.size();
  if (level == 0) {
    const llvm::IRBuilderBase::InsertPointGuard guard(c_.b);
    c_.b.SetInsertPoint(levels_[0]->getTerminator());
    Value* elements = c_.i64(0);
    for (std::size_t k = 0; k < rank; ++k) {
      elements = c_.b.CreateAdd(elements, c_.b.CreateMul(c_.unit(op.operands[1 + k]), view.strides[k]));
    }
    return rows_[{&op, m.axis, level}] = c_.b.CreateGEP(element, view.base, elements);
  }
  Value* p = view_row(op, m, level - 1);
  const llvm::IRBuilderBase::InsertPointGuard guard(c_.b);
  if (level < order_.size()) c_.b.SetInsertPoint(levels_[level]->getTerminator());
  for (std::size_t k = 0; k < rank; ++k) {
    const int axis = m.axis[k];
    if (axis < 0 || position_[static_cast<std::size_t>(axis)] != level) continue;
    if (axis == vector_axis_ && body_.lanes != 0) continue;
    p = c_.b.CreateGEP(element, p, c_.b.CreateMul(index_of(axis), view.strides[k]));
  }
  return rows_[{&op, m.axis, level}] = p;
}

Nest::Place Nest::view_place(const Op& op, const AxisMap& m) {
  const ViewArgument& view = c_.view(op.operands[0]);
  const std::size_t rank = view.extents.size();
  std::size_t level = 0, along = rank;
  for (std::size_t k = 0; k < rank; ++k) {
    if (m.axis[k] < 0) continue;
    if (m.axis[k] == vector_axis_ && body_.lanes != 0) {
      along = k;
    } else {
      level = std::max(level, position_[static_cast<std::size_t>(m.axis[k])]);
    }
  }
  Value* row = view_row(op, m, level);
  if (along == rank || (op.id != OpId::store && (view.facts.zero_stride >> along & 1) != 0)) return {row, false, false};
  llvm::Type* element = c_.e.memory_type(op.operands[0]->type.elem);
  if ((view.facts.unit_stride >> along & 1) != 0) return {c_.b.CreateGEP(element, row, body_.base), true, false};
  Value* index = c_.b.CreateAdd(c_.b.CreateVectorSplat(body_.lanes, body_.base), lane_numbers(c_.b.getInt64Ty()));
  Value* steps = c_.b.CreateMul(index, c_.b.CreateVectorSplat(body_.lanes, view.strides[along]));
  return {c_.b.CreateGEP(element, c_.b.CreateVectorSplat(body_.lanes, row), steps), true, true};
}

// `shape` is the row-major shape that the buffer is read or written as.
Nest::Place Nest::buffer_place(const Buffer& buffer, const AxisMap& m, const ir::Type& shape) {
  llvm::Type* element = c_.memory_type(buffer.type);
  Value* p = buffer.base;
  std::int64_t stride = 1, vector_stride = 0;
  for (std::size_t k = static_cast<std::size_t>(shape.rank); k-- > 0;) {
    if (m.axis[k] == vector_axis_ && body_.lanes != 0) {
      vector_stride = stride;
    } else if (m.axis[k] >= 0) {
      p = c_.b.CreateGEP(element, p, c_.b.CreateMul(index_of(m.axis[k]), c_.i64(stride)));
    }
    stride *= shape.extents[k];
  }
  if (vector_stride == 0) return {p, false, false};
  if (vector_stride == 1) return {c_.b.CreateGEP(element, p, body_.base), true, false};
  Value* index = c_.b.CreateAdd(c_.b.CreateVectorSplat(body_.lanes, body_.base), lane_numbers(c_.b.getInt64Ty()));
  Value* steps = c_.b.CreateMul(index, c_.b.CreateVectorSplat(body_.lanes, c_.i64(vector_stride)));
  return {c_.b.CreateGEP(element, c_.b.CreateVectorSplat(body_.lanes, p), steps), true, true};
}

// --- reading and writing

// Where the host has no masked gather and scatter for the type, LLVM makes a branch for each lane: one block of code a
// lane, slow to compile and to run. Lanes that are off use a place that is always there instead.
bool Nest::has_masked_scatter(const ir::Type& t) const {
  return c_.machine.has_masks && Context::element_bytes(t) >= 4;
}

Value* Nest::or_scratch(Value* on, Value* addresses) {
  return c_.b.CreateSelect(on, addresses, c_.b.CreateVectorSplat(body_.lanes, c_.scratch));
}

Point Nest::load_from(const Place& place, const ir::Type& t, Point mask, std::uint64_t pad) {
  const llvm::Align align(Context::element_bytes(t));
  const auto padding = [&](unsigned lanes) -> Value* {
    if (t.is_pointer()) return llvm::Constant::getNullValue(c_.register_type(t, lanes));
    return c_.to_memory(c_.e.constant_bits(t.elem, pad, lanes), t);
  };
  if (!place.is_vector && !mask.is_vector) {
    llvm::Type* type = c_.memory_type(t);
    // A lane that is off reads a place that is always there, so no branch is needed.
    Value* from = mask.value == nullptr ? place.address : c_.b.CreateSelect(mask.value, place.address, c_.scratch);
    Value* x = c_.b.CreateAlignedLoad(type, from, align);
    if (mask.value != nullptr) x = c_.b.CreateSelect(mask.value, x, padding(0));
    return {c_.from_memory(x, t), false};
  }
  llvm::Type* type = c_.memory_type(t, body_.lanes);
  if (body_.active != nullptr) mask = both(mask, {body_.active, true});
  Value* on = mask.value == nullptr ? nullptr : as_lanes(mask);
  Value* x = nullptr;
  if (place.scattered || !place.is_vector) {
    Value* from = place.is_vector ? place.address : c_.b.CreateVectorSplat(body_.lanes, place.address);
    if (on == nullptr || has_masked_scatter(t)) {
      x = c_.b.CreateMaskedGather(type, from, align, on, padding(body_.lanes));
    } else {
      x = c_.b.CreateMaskedGather(type, or_scratch(on, from), align);
      x = c_.b.CreateSelect(on, x, padding(body_.lanes));
    }
  } else if (on != nullptr) {
    x = c_.b.CreateMaskedLoad(type, place.address, align, on, padding(body_.lanes));
  } else {
    x = c_.b.CreateAlignedLoad(type, place.address, align);
  }
  return {c_.from_memory(x, t), true};
}

void Nest::store_to(const Place& place, const ir::Type& t, Point value, Point mask, bool is_view) {
  const llvm::Align align(Context::element_bytes(t));
  if (body_.lanes == 0) {
    Value* to = mask.value == nullptr ? place.address : c_.b.CreateSelect(mask.value, place.address, c_.scratch);
    c_.b.CreateAlignedStore(c_.to_memory(value.value, t), to, align);
    return;
  }
  Value* x = c_.to_memory(as_lanes(value), t);
  if (body_.active != nullptr) mask = both(mask, {body_.active, true});
  Value* on = mask.value == nullptr ? nullptr : as_lanes(mask);
  if (place.scattered || !place.is_vector) {
    Value* to = place.is_vector ? place.address : c_.b.CreateVectorSplat(body_.lanes, place.address);
    if (on != nullptr && !has_masked_scatter(t)) {
      to = or_scratch(on, to);
      on = nullptr;
    }
    c_.b.CreateMaskedScatter(x, to, align, on);
  } else if (on != nullptr) {
    c_.b.CreateMaskedStore(x, place.address, align, on);
  } else {
    llvm::StoreInst* store = c_.b.CreateAlignedStore(x, place.address, align);
    if (!body_.streams || !is_view) return;
    store->setAlignment(llvm::Align(body_.lanes * Context::element_bytes(t)));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                       llvm::MDNode::get(c_.b.getContext(), llvm::ConstantAsMetadata::get(c_.b.getInt32(1))));
  }
}

// --- the ops

Point Nest::mask_at(const ir::Value* mask, const AxisMap& m) {
  MaskParts parts;
  split_mask(mask, m, parts);
  Point all = emit_inside(parts.bounds);
  for (const auto& [rest, map] : parts.rest) all = both(all, eval(rest, map));
  return all;
}

Point Nest::task_mask(const Task& t) {
  Point all;
  for (const auto& [mask, map] : t.masks) all = both(all, eval(mask, map));
  return all;
}

Point Nest::emit_load(const Op& op, const AxisMap& m) {
  const Point mask = both(emit_inside(bounds_of(op, m)), mask_at(mask_of(op), m));
  order_volatile(c_.b, op);
  return load_from(view_place(op, m), op.results[0]->type, mask,
                   static_cast<std::uint64_t>(op.attrs.get_int(ir::AttrKey::pad)));
}

Point Nest::emit_load_ptr(const Op& op, const AxisMap& m) {
  const Point p = eval(op.operands[0], m);
  order_volatile(c_.b, op);
  return load_from({p.value, p.is_vector, true}, op.results[0]->type, mask_at(mask_of(op), m),
                   static_cast<std::uint64_t>(op.attrs.get_int(ir::AttrKey::pad)));
}

Point Nest::load_buffer(const ir::Value* v, const AxisMap& m, const ir::Type& shape) {
  const Buffer& buffer = c_.buffers.at(v);
  const Place place = buffer_place(buffer, m, shape);
  if (!place.is_vector || place.scattered) return load_from(place, buffer.type, {}, 0);
  // Lanes past the end are read too: scratch goes on, and nobody uses them.
  Value* x = c_.b.CreateAlignedLoad(c_.memory_type(buffer.type, body_.lanes), place.address,
                                    llvm::Align(Context::element_bytes(buffer.type)));
  return {c_.from_memory(x, buffer.type), true};
}

void Nest::emit_store(const Task& t) {
  const AxisMap m = identity_map(space_.rank);
  const Point value = eval(t.value, m);
  const Point mask = task_mask(t);
  order_volatile(c_.b, *t.op);
  if (t.op->id == OpId::store) return store_to(view_place(*t.op, m), t.value->type, value, mask, true);
  const Point p = eval(t.op->operands[0], m);
  store_to({p.value, p.is_vector, p.is_vector}, t.value->type, value, mask);
}

// One cache line for each vector: a vector is at most as long, and asking twice costs little.
void Nest::emit_fetches() {
  for (const Fetch& fetch : fetches_) {
    const Place here = view_place(*fetch.load, fetch.map);
    if (!here.is_vector || here.scattered) continue;
    const ViewArgument& view = c_.view(fetch.load->operands[0]);
    Value* elements = c_.i64(0);
    for (std::size_t k = 0; k < view.strides.size(); ++k) {
      elements = c_.b.CreateAdd(elements, c_.b.CreateMul(view.strides[k], c_.i64(fetch.growth[k])));
    }
    const ir::Type& t = fetch.load->results[0]->type;
    Value* there = c_.b.CreateGEP(c_.e.memory_type(t.elem), here.address, elements);
    const bool is_small = t.elements() * dtype_bytes(t.elem) <= first_level_block;
    c_.b.CreateIntrinsic(llvm::Intrinsic::prefetch, {there->getType()},
                         {there, c_.b.getInt32(0), c_.b.getInt32(is_small ? 3 : 2), c_.b.getInt32(1)});
  }
}

void Nest::emit_keep(const Task& t, std::size_t i) {
  const AxisMap m = identity_map(space_.rank);
  const Point value = eval(t.value, m, t.yield < 0);
  store_to(buffer_place(buffers_[i], m, t.value->type), t.value->type, value, {});
}

}  // namespace tileweave::codegen::cpu
