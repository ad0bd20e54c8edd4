// Reductions in a nest: accumulators in registers, several at a time, combined in a fixed order at the end.
// Part of Nest: see cpu_nest.h.
#include <algorithm>
#include <limits>

#include "tileweave/jit/codegen/cpu_nest.h"
#include "tileweave/jit/ir/builder.h"

namespace tileweave::codegen::cpu {

using ir::Combine;
using llvm::Value;

namespace {

Combine combine_of(const Task& t) { return ir::combine_from_name(t.op->attrs.get_text(ir::AttrKey::combine)).value(); }
bool is_arg(const Task& t) { return t.kind == Task::Kind::arg_reduce; }

llvm::Constant* identity_constant(const ElementLowering& e, Combine c, Dtype t, unsigned lanes) {
  llvm::Type* type = e.register_type(t, lanes);
  const unsigned bits = type->getScalarSizeInBits();
  switch (c) {
    case Combine::sum:
    case Combine::bit_or:
    case Combine::bit_xor:
      return llvm::Constant::getNullValue(type);
    case Combine::prod:
      return is_float(t) ? llvm::ConstantFP::get(type, 1.0) : llvm::ConstantInt::get(type, 1);
    case Combine::bit_and:
      return llvm::Constant::getAllOnesValue(type);
    case Combine::fmin:
    case Combine::fmax:
      if (is_float(t)) return llvm::ConstantFP::getNaN(type);
      break;
    case Combine::min:
    case Combine::max:
      break;
  }
  const bool low = c == Combine::max || c == Combine::fmax;
  if (is_float(t)) return llvm::ConstantFP::getInfinity(type, low);
  if (is_signed(t)) {
    return llvm::ConstantInt::get(type,
                                  low ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  }
  return low ? llvm::Constant::getNullValue(type) : llvm::Constant::getAllOnesValue(type);
}

Value* combined(ElementLowering& e, Combine c, Dtype t, Value* a, Value* x) {
  const auto op = [&](ir::OpId id) {
    Value* const operands[] = {a, x};
    return e.op(id, t, operands);
  };
  switch (c) {
    case Combine::sum:
      return op(ir::OpId::add);
    case Combine::prod:
      return op(ir::OpId::mul);
    case Combine::min:
      return op(ir::OpId::minimum);
    case Combine::max:
      return op(ir::OpId::maximum);
    case Combine::fmin:
      return op(ir::OpId::fmin);
    case Combine::fmax:
      return op(ir::OpId::fmax);
    case Combine::bit_and:
      return op(ir::OpId::bit_and);
    case Combine::bit_or:
      return op(ir::OpId::bit_or);
    case Combine::bit_xor:
      return op(ir::OpId::bit_xor);
  }
  return a;
}

}  // namespace

llvm::Value* reduce_identity(ElementLowering& e, const ir::Op& op, unsigned lanes) {
  const Combine c = ir::combine_from_name(op.attrs.get_text(ir::AttrKey::combine)).value();
  return identity_constant(e, c, op.operands[0]->type.elem, lanes);
}

llvm::Value* reduce_step(ElementLowering& e, const ir::Op& op, llvm::Value* acc, llvm::Value* x) {
  const Combine c = ir::combine_from_name(op.attrs.get_text(ir::AttrKey::combine)).value();
  return combined(e, c, op.operands[0]->type.elem, acc, x);
}

// --- one step

Nest::Best Nest::identity(const Task& t, unsigned lanes) {
  Best x;
  x.value = reduce_identity(c_.e, *t.op, lanes);
  if (is_arg(t)) x.index = llvm::Constant::getAllOnesValue(c_.e.register_type(Dtype::i32, lanes));
  return x;
}

Nest::Best Nest::combine(const Task& t, Best a, Best x) {
  if (is_arg(t)) return pick_better(t, a, x);
  return {reduce_step(c_.e, *t.op, a.value, x.value), nullptr};
}

// x where it wins: strictly better, a NaN against a number, or as good at a lower index.
Nest::Best Nest::pick_better(const Task& t, Best best, Best x) {
  auto& b = c_.b;
  const bool max = combine_of(t) == Combine::max;
  const Dtype type = t.value->type.elem;
  Value *wins = nullptr, *ties = nullptr;
  if (is_float(type)) {
    Value *x_nan = b.CreateFCmpUNO(x.value, x.value), *best_nan = b.CreateFCmpUNO(best.value, best.value);
    Value* ahead = max ? b.CreateFCmpOGT(x.value, best.value) : b.CreateFCmpOLT(x.value, best.value);
    wins = b.CreateAnd(b.CreateNot(best_nan), b.CreateOr(x_nan, ahead));
    ties = b.CreateOr(b.CreateFCmpOEQ(x.value, best.value), b.CreateAnd(x_nan, best_nan));
  } else {
    const auto greater = is_signed(type) ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT;
    wins = max ? b.CreateICmp(greater, x.value, best.value) : b.CreateICmp(greater, best.value, x.value);
    ties = b.CreateICmpEQ(x.value, best.value);
  }
  Value* none = llvm::Constant::getAllOnesValue(x.index->getType());
  Value* takes = b.CreateOr(wins, b.CreateAnd(ties, b.CreateICmpSLT(x.index, best.index)));
  takes = b.CreateAnd(takes, b.CreateICmpNE(x.index, none));
  takes = b.CreateOr(takes, b.CreateICmpEQ(best.index, none));
  return {b.CreateSelect(takes, x.value, best.value), b.CreateSelect(takes, x.index, best.index)};
}

Nest::Best Nest::load_best(llvm::AllocaInst* value, llvm::AllocaInst* index) {
  Best x{c_.b.CreateLoad(value->getAllocatedType(), value), nullptr};
  if (index != nullptr) x.index = c_.b.CreateLoad(index->getAllocatedType(), index);
  return x;
}

void Nest::store_best(Best x, llvm::AllocaInst* value, llvm::AllocaInst* index) {
  c_.b.CreateStore(x.value, value);
  if (index != nullptr) c_.b.CreateStore(x.index, index);
}

// --- along the loops

void Nest::begin_reductions(unsigned lanes, int copies) {
  accumulators_.assign(tasks_.size(), {});
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& t = tasks_[i];
    if (t.reduce_axis < 0) continue;
    Accumulator& a = accumulators_[i];
    const auto make = [&](unsigned n, llvm::AllocaInst*& value, llvm::AllocaInst*& index) {
      value = c_.slot(c_.e.register_type(t.value->type.elem, n));
      if (is_arg(t)) index = c_.slot(c_.e.register_type(Dtype::i32, n));
      store_best(identity(t, n), value, index);
    };
    make(0, a.total, a.total_index);
    for (int u = 0; u < copies && lanes != 0; ++u) {
      a.values.push_back(nullptr);
      a.indices.push_back(nullptr);
      make(lanes, a.values.back(), a.indices.back());
    }
  }
}

void Nest::emit_reduce(const Task& t, std::size_t i) {
  const Accumulator& a = accumulators_[i];
  const bool vector = body_.lanes != 0;
  const auto copy = static_cast<std::size_t>(body_.copy);
  llvm::AllocaInst* value = vector ? a.values[copy] : a.total;
  llvm::AllocaInst* index = vector ? a.indices[copy] : a.total_index;
  Best x{as_lanes(eval(t.value, identity_map(space_.rank))), nullptr};
  if (is_arg(t)) {
    llvm::Type* word = c_.b.getInt32Ty();
    x.index = as_lanes({c_.b.CreateTrunc(index_of(t.reduce_axis), word), false});
    if (vector && t.reduce_axis == vector_axis_) x.index = c_.b.CreateAdd(x.index, lane_numbers(word));
  }
  Point mask = task_mask(t);
  if (body_.active != nullptr) mask = both(mask, {body_.active, true});
  const Best before = load_best(value, index);
  Best after = combine(t, before, x);
  if (mask.value != nullptr) {
    Value* on = as_lanes(mask);
    after.value = c_.b.CreateSelect(on, after.value, before.value);
    if (index != nullptr) after.index = c_.b.CreateSelect(on, after.index, before.index);
  }
  store_best(after, value, index);
}

void Nest::merge_copies(int copies) {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].reduce_axis < 0) continue;
    const Accumulator& a = accumulators_[i];
    // Pairs first, so that the result does not hang on one long chain.
    for (int distance = copies / 2; distance > 0; distance /= 2) {
      for (int u = 0; u < distance; ++u) {
        const auto first = static_cast<std::size_t>(u), second = static_cast<std::size_t>(u + distance);
        const Best sum = combine(tasks_[i], load_best(a.values[first], a.indices[first]),
                                 load_best(a.values[second], a.indices[second]));
        store_best(sum, a.values[first], a.indices[first]);
      }
    }
  }
}

Nest::Best Nest::across_lanes(const Task& t, Best x) {
  auto lanes = llvm::cast<llvm::FixedVectorType>(x.value->getType())->getNumElements();
  for (; lanes > 1; lanes /= 2) {
    const auto half = [&](Value* v, unsigned first) -> Value* {
      if (v == nullptr) return nullptr;
      std::vector<int> which;
      for (unsigned k = 0; k < lanes / 2; ++k) which.push_back(static_cast<int>(first + k));
      return c_.b.CreateShuffleVector(v, which);
    };
    x = combine(t, {half(x.value, 0), half(x.index, 0)}, {half(x.value, lanes / 2), half(x.index, lanes / 2)});
  }
  x.value = c_.b.CreateExtractElement(x.value, std::uint64_t{0});
  if (x.index != nullptr) x.index = c_.b.CreateExtractElement(x.index, std::uint64_t{0});
  return x;
}

void Nest::fold_lanes() {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].reduce_axis < 0) continue;
    const Accumulator& a = accumulators_[i];
    store_best(across_lanes(tasks_[i], load_best(a.values[0], a.indices[0])), a.total, a.total_index);
  }
}

// --- results

Value* Nest::result_of(const Task& t, Best x) {
  if (!is_arg(t)) return x.value;
  Value* zero = llvm::Constant::getNullValue(x.index->getType());
  return c_.b.CreateSelect(c_.b.CreateICmpSLT(x.index, zero), zero, x.index);
}

AxisMap Nest::result_map(const Task& t) const {
  AxisMap m;
  for (int k = 0; k + 1 < space_.rank; ++k) {
    m.axis[static_cast<std::size_t>(k)] = static_cast<std::int8_t>(k < t.reduce_axis ? k : k + 1);
  }
  return m;
}

void Nest::put_results() {
  body_ = {};
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& t = tasks_[i];
    if (t.reduce_axis < 0) continue;
    Value* value = result_of(t, load_best(accumulators_[i].total, accumulators_[i].total_index));
    if (unit_slots_[i] != nullptr) {
      c_.b.CreateStore(value, unit_slots_[i]);
      continue;
    }
    const ir::Type& type = t.op->results[0]->type;
    store_to(buffer_place(buffers_[i], result_map(t), type), type, {value, false}, {});
  }
}

void Nest::finish_columns(unsigned lanes, int copies, Value* active) {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& t = tasks_[i];
    if (t.reduce_axis < 0) continue;
    const Accumulator& a = accumulators_[i];
    const ir::Type& type = t.op->results[0]->type;
    for (int u = 0; u < copies; ++u) {
      const auto copy = static_cast<std::size_t>(u);
      body_ = {lanes, copy_bases_[copy], active, u, false};
      const Best best = lanes == 0 ? load_best(a.total, a.total_index) : load_best(a.values[copy], a.indices[copy]);
      store_to(buffer_place(buffers_[i], result_map(t), type), type, {result_of(t, best), lanes != 0}, {});
    }
  }
}

// Results that no loop reaches, where bounds shorten the loops of other axes than the reduced one.
bool Nest::needs_fill(const Task& t) const {
  return guard_ != nullptr || std::any_of(bounds_.begin(), bounds_.end(), [&](const Bound& bound) {
           return bound.nest_axis >= 0 && bound.nest_axis != t.reduce_axis;
         });
}

void Nest::fill_result(const Task& t, const Buffer& to) {
  Value* value = c_.to_memory(result_of(t, identity(t, 0)), to.type);
  llvm::Type* type = c_.memory_type(to.type);
  emit_loop(c_, c_.i64(0), c_.i64(to.type.elements()), 1, [&](Value* i) {
    c_.b.CreateAlignedStore(value, c_.b.CreateGEP(type, to.base, i), llvm::Align(Context::element_bytes(to.type)));
  });
}

}  // namespace tileweave::codegen::cpu
