// Values at a point of a nest: each lazy value is computed once for a body, at the outermost loop level it can be.
// Part of Nest: see cpu_nest.h.
#include <array>
#include <source_location>

#include <llvm/IR/MDBuilder.h>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/cpu_nest.h"

namespace tileweave::codegen::cpu {

using ir::Op, ir::OpId;
using llvm::Value;

// --- where

std::size_t Nest::level_of(const AxisMap& m, int rank) const {
  std::size_t level = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    if (m.axis[k] >= 0) level = std::max(level, position_[static_cast<std::size_t>(m.axis[k])]);
  }
  return level;
}

bool Nest::is_along_vectors(const AxisMap& m, int rank) const {
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    if (m.axis[k] == vector_axis_) return body_.lanes != 0;
  }
  return false;
}

template <class F>
auto Nest::at_level(std::size_t level, F emit) {
  // At the innermost level emit() may end the block, and we go on where it stopped.
  if (level >= levels_.size() || level >= order_.size()) return emit();
  const llvm::IRBuilderBase::InsertPointGuard guard(c_.b);
  c_.b.SetInsertPoint(levels_[level]->getTerminator());
  return emit();
}

Value* Nest::index_of(int axis) { return axis < 0 ? c_.i64(0) : index_[static_cast<std::size_t>(axis)]; }

Value* Nest::lane_numbers(llvm::Type* scalar) {
  std::vector<llvm::Constant*> numbers;
  for (unsigned i = 0; i < lanes_; ++i) numbers.push_back(llvm::ConstantInt::get(scalar, i));
  return llvm::ConstantVector::get(numbers);
}

Value* Nest::as_lanes(const Point& p) {
  return p.is_vector || body_.lanes == 0 ? p.value : c_.b.CreateVectorSplat(body_.lanes, p.value);
}

Point Nest::both(Point a, Point b) {
  if (a.value == nullptr) return b;
  if (b.value == nullptr) return a;
  if (!a.is_vector && !b.is_vector) return {c_.b.CreateAnd(a.value, b.value), false};
  return {c_.b.CreateAnd(as_lanes(a), as_lanes(b)), true};
}

// --- what

Point Nest::eval(const ir::Value* v, const AxisMap& m, bool compute) {
  if (is_unit(v)) return {c_.unit(v), false};
  const bool vector = is_along_vectors(m, v->type.rank);
  const Key key{v, m.axis, vector ? body_.copy : 0};
  const auto at = known_.find(key);
  if (at != known_.end()) return at->second.point;
  bool own = compute;  // computed by a keep of this nest, which need not read it back
  for (const Task& t : tasks_) own = own || (t.kind == Task::Kind::keep && t.yield < 0 && t.value == v);
  const std::size_t level = level_of(m, v->type.rank);
  const bool in_memory = !is_lazy(v) || (!own && c_.planner.is_kept(v));
  const Point p = at_level(level, [&] { return in_memory ? load_buffer(v, m, v->type) : emit_value(v, m); });
  known_[key] = {p, level};
  return p;
}

Point Nest::emit_value(const ir::Value* v, const AxisMap& m) {
  const Op& op = *v->def;
  if (ir::is_elementwise(op.id)) return emit_elementwise(op, m);
  switch (op.id) {
    case OpId::constant:
      return {c_.e.constant_bits(v->type.elem, static_cast<std::uint64_t>(op.attrs.get_int(ir::AttrKey::value))),
              false};
    case OpId::iota:
      return emit_iota(op, m);
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::trans:
      return eval(op.operands[0], operand_map(op, 0, m));
    case OpId::reshape:
      if (is_axis_reshape(op)) return eval(op.operands[0], operand_map(op, 0, m));
      return load_buffer(op.operands[0], m, v->type);
    case OpId::convert: {
      const Point x = eval(op.operands[0], m);
      const bool saturate = op.attrs.get_int(ir::AttrKey::saturate) != 0;
      return {c_.e.convert(x.value, op.operands[0]->type.elem, v->type.elem, saturate), x.is_vector};
    }
    case OpId::bitcast: {
      const Point x = eval(op.operands[0], m);
      return {c_.e.bitcast(x.value, op.operands[0]->type.elem, v->type.elem), x.is_vector};
    }
    case OpId::inside: {
      const Point p = emit_inside(bounds_of(op, m));
      return p.value == nullptr ? Point{c_.b.getTrue(), false} : p;
    }
    case OpId::load:
      return emit_load(op, m);
    case OpId::load_ptr:
      return emit_load_ptr(op, m);
    case OpId::ptr_add: {
      const Point p = eval(op.operands[0], m), offset = eval(op.operands[1], m);
      const bool vector = p.is_vector || offset.is_vector;
      const Point wide{c_.e.convert(offset.value, op.operands[1]->type.elem, Dtype::i64), offset.is_vector};
      llvm::Type* element = c_.e.memory_type(v->type.elem);
      if (!vector) return {c_.b.CreateGEP(element, p.value, wide.value), false};
      return {c_.b.CreateGEP(element, as_lanes(p), as_lanes(wide)), true};
    }
    default:
      throw_internal_error(std::source_location::current(),
                           "no value of " + std::string(ir::op_info(op.id).name) + " at a point");
  }
}

Point Nest::emit_elementwise(const Op& op, const AxisMap& m) {
  // In a block of an outer level, which ends already, there is no room for a branch.
  const bool is_innermost = c_.b.GetInsertPoint() == c_.b.GetInsertBlock()->end();
  if (const auto* before = is_rare_ || !is_innermost ? nullptr : c_.rare.before_branch(op)) {
    return emit_rare(op, *before, m);
  }
  std::array<Point, 3> points{};
  bool vector = false;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    points[i] = eval(op.operands[i], m);
    vector = vector || points[i].is_vector;
  }
  std::array<Value*, 3> values{};
  for (std::size_t i = 0; i < op.operands.size(); ++i) values[i] = vector ? as_lanes(points[i]) : points[i].value;
  return {c_.e.op(op.id, op.operands.back()->type.elem, std::span(values).first(op.operands.size())), vector};
}

// A `where` whose first value is long: computed only where some lane takes it.
Point Nest::emit_rare(const Op& where, const std::vector<const ir::Value*>& before, const AxisMap& m) {
  const Point condition = eval(where.operands[0], m), otherwise = eval(where.operands[2], m);
  for (const ir::Value* v : before) eval(v, m);
  const bool vector = body_.lanes != 0;
  Value* usual = as_lanes(otherwise);
  Value* any = condition.is_vector ? c_.b.CreateOrReduce(condition.value) : condition.value;
  llvm::BasicBlock *from = c_.b.GetInsertBlock(), *rare = c_.new_block("rare"), *done = c_.new_block("usual");
  c_.b.CreateCondBr(any, rare, done, llvm::MDBuilder(c_.b.getContext()).createUnlikelyBranchWeights());
  c_.b.SetInsertPoint(rare);
  // What is computed in here is known nowhere else.
  const auto known = known_;
  is_rare_ = true;
  Value* const operands[] = {condition.is_vector ? condition.value : any, as_lanes(eval(where.operands[1], m)), usual};
  is_rare_ = false;
  known_ = known;
  Value* chosen = c_.e.op(OpId::where, where.operands[1]->type.elem, operands);
  rare = c_.b.GetInsertBlock();
  c_.b.CreateBr(done);
  c_.b.SetInsertPoint(done);
  llvm::PHINode* result = c_.b.CreatePHI(usual->getType(), 2);
  result->addIncoming(usual, from);
  result->addIncoming(chosen, rare);
  return {result, vector};
}

Point Nest::emit_iota(const Op& op, const AxisMap& m) {
  const Dtype t = op.results[0]->type.elem;
  llvm::Type* scalar = c_.e.register_type(t);
  const bool vector = is_along_vectors(m, 1);
  Value* index = vector ? body_.base : index_of(m.axis[0]);
  Value* first = c_.b.CreateAdd(index, c_.i64(op.attrs.get_int(ir::AttrKey::start)));
  first = c_.b.CreateTrunc(first, scalar);
  if (!vector) return {first, false};
  return {c_.b.CreateAdd(c_.b.CreateVectorSplat(body_.lanes, first), lane_numbers(scalar)), true};
}

// Which lanes lie inside, of bounds that the loops do not already keep; null where all do.
Point Nest::emit_inside(const std::vector<Bound>& bounds) {
  Point all;
  for (const Bound& bound : bounds) {
    if (fast_ || contains(bounds_, bound)) continue;
    Value *lo = bound_limit(bound, false), *hi = bound_limit(bound, true);
    if (bound.nest_axis != vector_axis_ || body_.lanes == 0) {
      Value* i = index_of(bound.nest_axis);
      all = both(all, {c_.b.CreateAnd(c_.b.CreateICmpSLE(lo, i), c_.b.CreateICmpSLT(i, hi)), false});
      continue;
    }
    // An index along a tile fits 32 bits, and so do the limits once they are clamped to the tile.
    llvm::Type* word = c_.b.getInt32Ty();
    const auto lanes_of = [&](Value* limit) {
      Value* extent = c_.i64(space_.extents[static_cast<std::size_t>(vector_axis_)]);
      limit = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, c_.i64(0));
      limit = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, extent);
      return c_.b.CreateVectorSplat(body_.lanes, c_.b.CreateTrunc(limit, word));
    };
    Value* first = c_.b.CreateVectorSplat(body_.lanes, c_.b.CreateTrunc(body_.base, word));
    Value* i = c_.b.CreateAdd(first, lane_numbers(word));
    Value* holds = c_.b.CreateAnd(c_.b.CreateICmpSGE(i, lanes_of(lo)), c_.b.CreateICmpSLT(i, lanes_of(hi)));
    all = both(all, {holds, true});
  }
  return all;
}

}  // namespace tileweave::codegen::cpu
