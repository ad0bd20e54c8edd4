// A sum of values and the sum of their squared deviations from some mean, in one pass over the registers and one
// exchange between warps. Normalisations write two reductions; the second would wait for the first, twice.
// One of gpu_lower*.cpp: lower_reduce asks here before it lowers a sum, and before it lowers what was found then.
//
// Each warp sums x and x^2. Its sum of squared deviations from its own mean u is M = sum x^2 - u sum x, taken again as
// sum (x - u)^2 where the difference would cancel. The warps' deviations from m, whatever m is, add up as
// M + n (u - m)^2: no term is negative.
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "tileweave/jit/codegen/gpu_axis_reducer.h"
#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

namespace {

// Shorter rows gain nothing.
constexpr std::int64_t least_extent = 256;
// Past this the difference loses more than two bits.
constexpr double largest_ratio = 4.0;

bool is_sum(const Op& op) {
  return op.id == OpId::reduce && op.attrs.get_text(ir::AttrKey::combine) == "sum" &&
         op.operands[0]->type.elem == Dtype::f32;
}

// The centred values, where `op` sums their squares; else null.
const Op* deviations(const Op& op) {
  const Op* square = op.operands[0]->def;
  if (square == nullptr || square->id != OpId::mul || square->operands[0] != square->operands[1]) return nullptr;
  const Op* centred = square->operands[0]->def;
  if (centred == nullptr || centred->id != OpId::sub) return nullptr;
  const Op* mean = centred->operands[1]->def;
  return mean != nullptr && mean->id == OpId::broadcast ? centred : nullptr;
}

}  // namespace

// A later sum of squared deviations of the same values over the same lanes; null where there is none.
const Op* GpuLowering::find_deviations(const Op& sum) const {
  if (!is_sum(sum)) return nullptr;
  const Value* x = sum.operands[0];
  const auto axis = sum.attrs.get_int(ir::AttrKey::axis);
  if (x->type.extents[static_cast<std::size_t>(axis)] < least_extent) return nullptr;
  const auto& ops = sum.parent->ops;
  const auto self = std::find_if(ops.begin(), ops.end(), [&](const auto& op) { return op.get() == &sum; });
  const auto found = std::find_if(self, ops.end(), [&](const auto& op) {
    if (!is_sum(*op) || op->attrs.get_int(ir::AttrKey::axis) != axis) return false;
    const Op* centred = deviations(*op);
    const bool same_lanes =
        std::equal(op->operands.begin() + 1, op->operands.end(), sum.operands.begin() + 1, sum.operands.end());
    return centred != nullptr && centred->operands[0] == x && same_lanes && layout_of(op->operands[0]) == layout_of(x);
  });
  return found == ops.end() ? nullptr : found->get();
}

void GpuLowering::lower_sum_with_deviations(const Op& sum, const Op& squares, const Layout& l) {
  const Value* x = sum.operands[0];
  llvm::Type* f32 = c.b.getFloatTy();
  llvm::Constant* zero = llvm::ConstantFP::get(f32, 0.0);
  const Regs held = get(x, l);
  const Regs* mask = sum.operands.size() == 2 ? &get(sum.operands[1], l) : nullptr;
  c.enter_op(sum);
  TileFrame frame(c, l, shape_of(x->type));
  std::vector<llvm::Value*> counted(held.size(), nullptr);
  bool counts_all = true;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == nullptr) continue;
    counted[i] = counts(frame, static_cast<int>(i), mask);
    counts_all &= counted[i] == nullptr;
  }
  const auto fma = [&](llvm::Value* a, llvm::Value* b, llvm::Value* d) {
    return c.elements.op(OpId::fma, Dtype::f32, std::array<llvm::Value*, 3>{a, b, d});
  };

  // A lane is its value and whether it counts; a partial result is (sum, sum of squares, count).
  Reduction r;
  r.axis = static_cast<int>(sum.attrs.get_int(ir::AttrKey::axis));
  r.types = {f32, f32};
  if (!counts_all) r.types.push_back(f32);
  r.identity.assign(r.types.size(), zero);
  r.combine = [&](const Reduction::Partial& a, const Reduction::Partial& b) {
    Reduction::Partial both;
    for (std::size_t k = 0; k < a.size(); ++k) both.push_back(c.b.CreateFAdd(a[k], b[k]));
    return both;
  };
  r.accumulate = [&](const Reduction::Partial& chain, const Reduction::Partial& lane) {
    Reduction::Partial next{c.b.CreateFAdd(chain[0], lane[0]), fma(lane[0], lane[0], chain[1])};
    if (!counts_all) next.push_back(c.b.CreateFAdd(chain[2], lane[1]));
    return next;
  };
  r.start = [&](const Reduction::Partial& lane) {
    Reduction::Partial first{lane[0], c.b.CreateFMul(lane[0], lane[0])};
    if (!counts_all) first.push_back(lane[1]);
    return first;
  };
  AxisReducer reducer(c, l, r);
  std::vector<Reduction::Partial> lanes(held.size());
  std::vector<std::int64_t> registers_of(static_cast<std::size_t>(l.slice(r.axis).registers()), 0);
  llvm::Constant* one = llvm::ConstantFP::get(f32, 1.0);
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == nullptr) continue;
    ++registers_of[reducer.result_register(i)];
    llvm::Value* p = counted[i];
    lanes[i] = {p == nullptr ? held[i] : c.b.CreateSelect(p, held[i], zero)};
    if (!counts_all) lanes[i].push_back(p == nullptr ? one : c.b.CreateSelect(p, one, zero));
    c.split_long_block();
  }
  const auto across_lanes = [&](llvm::Value* v, llvm::Value* other) {
    return shuffle(v, PrimitiveId::shuffle_bfly, other);
  };
  std::vector<Reduction::Partial> warps = reducer.in_registers(lanes);
  reducer.across_lanes(warps, across_lanes);

  // (sum, sum of squares, count) becomes (sum, squared deviations from the warp's mean, count).
  const int reduced_lanes = std::popcount(reduced_bits(l, Place4::lane, r.axis));
  llvm::Value* cancels = c.b.getFalse();
  std::vector<llvm::Value*> means(warps.size(), nullptr), squared(warps.size(), nullptr),
      inverse(warps.size(), nullptr);
  for (std::size_t k = 0; k < warps.size(); ++k) {
    if (warps[k].empty()) continue;
    if (counts_all) {
      const double n = static_cast<double>(registers_of[k] << reduced_lanes);
      inverse[k] = llvm::ConstantFP::get(f32, 1 / n);
    } else {
      // A warp without lanes that count has only zeros to sum.
      llvm::Value* n = c.elements.maximum(warps[k][2], one, Dtype::f32);
      inverse[k] = c.call(PrimitiveId::rcp_approx_ftz, {n});
    }
    means[k] = c.b.CreateFMul(warps[k][0], inverse[k]);
    squared[k] = fma(c.b.CreateFNeg(warps[k][0]), means[k], warps[k][1]);
    llvm::Value* limit = c.b.CreateFMul(squared[k], llvm::ConstantFP::get(f32, largest_ratio));
    // True for NaN too: a sum of squares may overflow where deviations do not.
    cancels = c.b.CreateOr(cancels, c.b.CreateFCmpUGT(warps[k][1], limit));
  }
  cancels = c.call(PrimitiveId::vote_any, {cancels, c.site()});
  llvm::BasicBlock* before = c.b.GetInsertBlock();
  llvm::BasicBlock *again = c.new_block("deviations_again"), *join = c.new_block("deviations");
  c.b.CreateCondBr(cancels, again, join);
  c.b.SetInsertPoint(again);
  std::vector<Reduction::Partial> second = squared_deviations(held, counted, means, l, r.axis);
  llvm::BasicBlock* end = c.b.GetInsertBlock();
  c.b.CreateBr(join);
  c.b.SetInsertPoint(join);
  for (std::size_t k = 0; k < warps.size(); ++k) {
    if (warps[k].empty()) continue;
    llvm::PHINode* phi = c.b.CreatePHI(f32, 2);
    phi->addIncoming(squared[k], before);
    phi->addIncoming(second[k][0], end);
    warps[k][1] = phi;
  }

  const auto lists = reducer.of_all_warps(
      warps, scratch_, [&](llvm::Value* at, llvm::Value* v, llvm::Value* p) { shared_store(at, v, p); },
      [&](llvm::Value* at, llvm::Type* t) { return shared_load(at, t); });
  Regs sums;
  Moments& kept = moments_[&squares];
  for (std::size_t k = 0; k < lists.size(); ++k) {
    std::vector<Reduction::Partial> all;
    for (const auto& w : lists[k]) {
      all.push_back({w[0]});
      const double n = static_cast<double>(registers_of[k] << reduced_lanes);
      kept.warps.resize(lists.size());
      kept.warps[k].push_back({w[0], w[1], counts_all ? llvm::ConstantFP::get(f32, n) : w[2]});
    }
    const Reduction::Partial total = reducer.combine_warps(std::move(all), across_lanes);
    sums.push_back(total.empty() ? nullptr : c.b.CreateFAdd(total[0], zero));
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] != nullptr) kept.some_register[reducer.result_register(i)] = static_cast<int>(i);
  }
  define(sum.results[0], sum.results[0]->type.rank == 0 ? scalar_layout_ : l.slice(r.axis), sums);
}

std::vector<Reduction::Partial> GpuLowering::squared_deviations(const Regs& held,
                                                                const std::vector<llvm::Value*>& counted,
                                                                const std::vector<llvm::Value*>& means, const Layout& l,
                                                                int axis) {
  llvm::Constant* zero = llvm::ConstantFP::get(c.b.getFloatTy(), 0.0);
  Reduction r;
  r.axis = axis;
  r.types = {c.b.getFloatTy()};
  r.identity = {zero};
  r.combine = [&](const Reduction::Partial& a, const Reduction::Partial& b) {
    return Reduction::Partial{c.b.CreateFAdd(a[0], b[0])};
  };
  r.start = [&](const Reduction::Partial& lane) { return Reduction::Partial{c.b.CreateFMul(lane[0], lane[0])}; };
  r.accumulate = [&](const Reduction::Partial& chain, const Reduction::Partial& lane) {
    return Reduction::Partial{
        c.elements.op(OpId::fma, Dtype::f32, std::array<llvm::Value*, 3>{lane[0], lane[0], chain[0]})};
  };
  AxisReducer reducer(c, l, r);
  std::vector<Reduction::Partial> lanes(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == nullptr) continue;
    llvm::Value* d = c.b.CreateFSub(held[i], means[reducer.result_register(i)]);
    lanes[i] = {counted[i] == nullptr ? d : c.b.CreateSelect(counted[i], d, zero)};
  }
  std::vector<Reduction::Partial> sums = reducer.in_registers(lanes);
  reducer.across_lanes(
      sums, [&](llvm::Value* v, llvm::Value* other) { return shuffle(v, PrimitiveId::shuffle_bfly, other); });
  return sums;
}

void GpuLowering::lower_deviations(const Op& op, const Layout& l) {
  const Moments moments = moments_.at(&op);
  const int axis = static_cast<int>(op.attrs.get_int(ir::AttrKey::axis));
  const Value* mean = deviations(op)->operands[1];
  Reduction r;
  r.axis = axis;
  r.combine = [&](const Reduction::Partial& a, const Reduction::Partial& b) {
    return Reduction::Partial{c.b.CreateFAdd(a[0], b[0])};
  };
  AxisReducer reducer(c, l, r);
  Regs regs;
  for (std::size_t k = 0; k < moments.warps.size(); ++k) {
    if (moments.warps[k].empty()) {
      regs.push_back(nullptr);
      continue;
    }
    llvm::Value* m = element(mean, l, moments.some_register.at(k));
    c.enter_op(op);
    std::vector<Reduction::Partial> all;
    for (const auto& [sum, squares, n] : moments.warps[k]) {
      llvm::Value* inverse = nullptr;
      if (const auto* known = llvm::dyn_cast<llvm::ConstantFP>(n)) {
        inverse = llvm::ConstantFP::get(c.b.getFloatTy(), 1 / known->getValueAPF().convertToDouble());
      } else {
        llvm::Constant* one = llvm::ConstantFP::get(c.b.getFloatTy(), 1.0);
        inverse = c.call(PrimitiveId::rcp_approx_ftz, {c.elements.maximum(n, one, Dtype::f32)});
      }
      const auto fma = [&](llvm::Value* a, llvm::Value* b, llvm::Value* d) {
        return c.elements.op(OpId::fma, Dtype::f32, std::array<llvm::Value*, 3>{a, b, d});
      };
      llvm::Value* apart = fma(sum, inverse, c.b.CreateFNeg(m));
      // Without lanes that count, nothing: m may be infinite.
      llvm::Value* weighted = c.b.CreateFMul(n, apart);
      if (!llvm::isa<llvm::Constant>(n)) {
        llvm::Constant* zero = llvm::ConstantFP::get(c.b.getFloatTy(), 0.0);
        llvm::Value* none = c.b.CreateFCmpOEQ(n, zero);
        weighted = c.b.CreateSelect(none, zero, weighted);
        apart = c.b.CreateSelect(none, zero, apart);
      }
      all.push_back({fma(weighted, apart, squares)});
    }
    const auto across_lanes = [&](llvm::Value* v, llvm::Value* other) {
      return shuffle(v, PrimitiveId::shuffle_bfly, other);
    };
    regs.push_back(reducer.combine_warps(std::move(all), across_lanes)[0]);
  }
  define(op.results[0], op.results[0]->type.rank == 0 ? scalar_layout_ : l.slice(axis), regs);
}

}  // namespace tileweave::codegen
