// Lowering of reduce and arg_reduce: in registers, then across lanes by shuffles, then across warps through shared
// memory. The order is fixed by the layout, so results are the same from run to run.
#include <llvm/IR/Constants.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "tileweave/jit/codegen/gpu_axis_reducer.h"
#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::codegen {

using ir::Combine;
using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

namespace {

// The bits that change nothing when combined; what a reduction of no lanes gives.
std::uint64_t identity_bits(Combine how, Dtype t) {
  switch (how) {
    case Combine::sum:
    case Combine::bit_or:
    case Combine::bit_xor:
      return 0;
    case Combine::prod:
      return ir::host::from_int(1, t);
    case Combine::bit_and:
      return is_bool(t) ? 1 : ir::host::from_int(-1, t);
    case Combine::fmin:
    case Combine::fmax:
      if (is_float(t)) return ir::host::from_double(std::nan(""), t);
      break;
    default:
      break;
  }
  const bool low = how == Combine::max || how == Combine::fmax;
  return ir::host::from_double(low ? -HUGE_VAL : HUGE_VAL, t);  // integers: saturates to their ends
}

// Each lane and warp bit moves either the reduced axis or others, and none twice.
bool is_separable(const Layout& l, int axis) {
  for (Place4 p : {Place4::reg, Place4::lane, Place4::warp}) {
    for (std::uint64_t base : l.bases(p)) {
      if ((base & l.axis_mask(axis)) != 0 && (base & ~l.axis_mask(axis)) != 0) return false;
    }
  }
  return l.is_injective_but_free();
}

}  // namespace

std::vector<std::vector<llvm::Value*>> GpuLowering::reduce_axis(const Layout& l, const Reduction& r,
                                                                const std::vector<std::vector<llvm::Value*>>& lanes) {
  AxisReducer reducer(c, l, r);
  auto partials = reducer.in_registers(lanes);
  const auto from_lane = [&](llvm::Value* v, llvm::Value* mask) { return shuffle(v, PrimitiveId::shuffle_bfly, mask); };
  reducer.across_lanes(partials, from_lane);
  reducer.across_warps(
      partials, scratch_, [&](llvm::Value* at, llvm::Value* v, llvm::Value* p) { shared_store(at, v, p); },
      [&](llvm::Value* at, llvm::Type* t) { return shared_load(at, t); }, from_lane);
  return partials;
}

// The operand's layout where it can be reduced as it is, else a blocked one.
Layout GpuLowering::reducible_layout(const Value* x, int axis) const {
  const Layout& l = layout_of(x);
  if (is_separable(l, axis)) return l;
  std::vector<int> order;
  for (int a = x->type.rank - 1; a >= 0; --a) order.push_back(a);
  return ir::blocked_layout(shape_of(x->type).axis_bits(), order, 0, c.warp_bits);
}

// True where the element counts; null where it always does.
llvm::Value* GpuLowering::counts(TileFrame& frame, int r, const Regs* mask) {
  llvm::Value* p = frame.exists(r);
  if (mask == nullptr) return p;
  llvm::Value* m = (*mask)[static_cast<std::size_t>(r)];
  const auto* k = llvm::dyn_cast<llvm::ConstantInt>(m);
  return k != nullptr && k->isOne() ? p : c.both(p, m);
}

// A sum of products of f32 that nothing has asked for yet: added up by multiply-adds, one rounding less a term.
bool GpuLowering::sums_products(const Op& op, const Layout& l) const {
  const Value* x = op.operands[0];
  return op.attrs.get_text(ir::AttrKey::combine) == "sum" && x->type.elem == Dtype::f32 && is_deferred(x) &&
         x->def->id == OpId::mul && layout_of(x) == l;
}

void GpuLowering::lower_sum_of_products(const Op& op, const Layout& l) {
  const Value* x = op.operands[0];
  const int axis = static_cast<int>(op.attrs.get_int(ir::AttrKey::axis));
  const Regs* mask = op.operands.size() == 2 ? &get(op.operands[1], l) : nullptr;
  Reduction r;
  r.axis = axis;
  r.types = {c.b.getFloatTy()};
  r.identity = {llvm::ConstantFP::get(c.b.getFloatTy(), 0.0)};
  r.combine = [&](const Reduction::Partial& a, const Reduction::Partial& b) {
    return Reduction::Partial{c.b.CreateFAdd(a[0], b[0])};
  };
  const auto chosen = [&](const Reduction::Partial& lane, llvm::Value* value, llvm::Value* otherwise) {
    return Reduction::Partial{lane.size() == 3 ? c.b.CreateSelect(lane[2], value, otherwise) : value};
  };
  r.start = [&](const Reduction::Partial& lane) {
    return chosen(lane, c.b.CreateFMul(lane[0], lane[1]), r.identity[0]);
  };
  r.accumulate = [&](const Reduction::Partial& chain, const Reduction::Partial& lane) {
    const std::array<llvm::Value*, 3> operands{lane[0], lane[1], chain[0]};
    return chosen(lane, c.elements.op(OpId::fma, Dtype::f32, operands), chain[0]);
  };
  TileFrame frame(c, l, shape_of(x->type));
  std::vector<Reduction::Partial> lanes(static_cast<std::size_t>(l.registers()));
  for (int i = 0; i < l.registers(); ++i) {
    if (!frame.is_live(i)) continue;
    auto& lane = lanes[static_cast<std::size_t>(i)];
    lane = {element(x->def->operands[0], l, i), element(x->def->operands[1], l, i)};
    if (llvm::Value* p = counts(frame, i, mask)) lane.push_back(p);
    c.split_long_block();
  }
  c.enter_op(op);
  Regs regs;
  for (const auto& p : reduce_axis(l, r, lanes)) {
    // Sums start at +0, which shows where all terms are -0.
    regs.push_back(p.empty() ? nullptr : r.combine(p, r.identity)[0]);
  }
  define(op.results[0], op.results[0]->type.rank == 0 ? scalar_layout_ : l.slice(axis), regs);
}

void GpuLowering::lower_reduce(const Op& op) {
  const Value *x = op.operands[0], *result = op.results[0];
  const int axis = static_cast<int>(op.attrs.get_int(ir::AttrKey::axis));
  const Combine how = *ir::combine_from_name(op.attrs.get_text(ir::AttrKey::combine));
  const Dtype from = x->type.elem, t = is_narrow_float(from) ? Dtype::f32 : from;
  const Layout l = reducible_layout(x, axis);
  if (moments_.contains(&op)) return lower_deviations(op, l);
  if (const Op* squares = find_deviations(op); squares != nullptr && layout_of(x) == l) {
    return lower_sum_with_deviations(op, *squares, l);
  }
  if (sums_products(op, l)) return lower_sum_of_products(op, l);
  const Regs& held = get(x, l);
  const Regs* mask = op.operands.size() == 2 ? &get(op.operands[1], l) : nullptr;

  Reduction r;
  r.axis = axis;
  r.types = {c.elements.register_type(t)};
  r.identity = {c.elements.constant_bits(t, identity_bits(how, t))};
  r.combine = [&](const Reduction::Partial& a, const Reduction::Partial& b) {
    const std::array<llvm::Value*, 2> both{a[0], b[0]};
    return Reduction::Partial{c.elements.op(ir::combine_op(how), t, both)};
  };
  TileFrame frame(c, l, shape_of(x->type));
  std::vector<Reduction::Partial> lanes(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == nullptr) continue;
    llvm::Value* v = from == t ? held[i] : c.elements.convert(held[i], from, t);
    if (llvm::Value* p = counts(frame, static_cast<int>(i), mask)) v = c.b.CreateSelect(p, v, r.identity[0]);
    lanes[i] = {v};
    c.split_long_block();
  }
  c.enter_op(op);  // what was deferred has its own place
  const auto partials = reduce_axis(l, r, lanes);
  Regs regs;
  for (const auto& p : partials) {
    llvm::Value* v = p.empty() ? nullptr : p[0];
    // Sums start at +0, which shows where all terms are -0.
    if (v != nullptr && how == Combine::sum && is_float(t)) v = r.combine({v}, r.identity)[0];
    regs.push_back(v == nullptr || from == t ? v : c.elements.convert(v, t, from));
  }
  define(result, result->type.rank == 0 ? scalar_layout_ : l.slice(axis), regs);
}

void GpuLowering::lower_arg_reduce(const Op& op) {
  const Value *x = op.operands[0], *result = op.results[0];
  const int axis = static_cast<int>(op.attrs.get_int(ir::AttrKey::axis));
  const bool max = op.attrs.get_text(ir::AttrKey::combine) == "max";
  const Dtype from = x->type.elem, t = is_narrow_float(from) ? Dtype::f32 : from;
  const Layout l = reducible_layout(x, axis);
  const Regs& held = get(x, l);
  const Regs* mask = op.operands.size() == 2 ? &get(op.operands[1], l) : nullptr;

  // A lane that does not count has the worst value and an index past all others.
  constexpr auto no_index = std::numeric_limits<std::int32_t>::max();
  Reduction r;
  r.axis = axis;
  r.types = {c.elements.register_type(t), c.b.getInt32Ty()};
  r.identity = {c.elements.constant_bits(t, identity_bits(max ? Combine::max : Combine::min, t)), c.i32(no_index)};
  r.combine = [&](const Reduction::Partial& a, const Reduction::Partial& b) {
    const auto test = [&](OpId id, llvm::Value* p, llvm::Value* q) {
      const std::array<llvm::Value*, 2> operands{p, q};
      return c.elements.op(id, t, operands);
    };
    // b takes a's place where it is better, or as good and earlier.
    llvm::Value* better = test(max ? OpId::gt : OpId::lt, b[0], a[0]);
    llvm::Value* equal = test(OpId::eq, b[0], a[0]);
    if (is_float(t)) {
      llvm::Value *a_nan = c.b.CreateFCmpUNO(a[0], a[0]), *b_nan = c.b.CreateFCmpUNO(b[0], b[0]);
      better = c.b.CreateOr(better, c.b.CreateAnd(b_nan, c.b.CreateNot(a_nan)));
      equal = c.b.CreateOr(equal, c.b.CreateAnd(a_nan, b_nan));
    }
    llvm::Value* take = c.b.CreateOr(better, c.b.CreateAnd(equal, c.b.CreateICmpSLT(b[1], a[1])));
    return Reduction::Partial{c.b.CreateSelect(take, b[0], a[0]), c.b.CreateSelect(take, b[1], a[1])};
  };
  TileFrame frame(c, l, shape_of(x->type));
  std::vector<Reduction::Partial> lanes(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == nullptr) continue;
    llvm::Value* v = from == t ? held[i] : c.elements.convert(held[i], from, t);
    llvm::Value* index = frame.coordinate(axis, static_cast<int>(i));
    if (llvm::Value* p = counts(frame, static_cast<int>(i), mask)) {
      v = c.b.CreateSelect(p, v, r.identity[0]);
      index = c.b.CreateSelect(p, index, r.identity[1]);
    }
    lanes[i] = {v, index};
    c.split_long_block();
  }
  c.enter_op(op);
  Regs regs;
  for (const auto& p : reduce_axis(l, r, lanes)) {
    regs.push_back(p.empty() ? nullptr : c.b.CreateSelect(c.b.CreateICmpEQ(p[1], c.i32(no_index)), c.i32(0), p[1]));
  }
  define(result, result->type.rank == 0 ? scalar_layout_ : l.slice(axis), regs);
}

}  // namespace tileweave::codegen
