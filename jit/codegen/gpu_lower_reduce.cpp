// Lowering of reduce and arg_reduce: in registers, then across lanes by shuffles, then across warps through shared
// memory. The order is fixed by the layout, so results are the same from run to run.
#include <llvm/IR/Constants.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

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

constexpr int accumulators = 4;  // independent chains in registers, for the latency of an addition

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

// The bits of `p` that move the reduced axis.
std::uint64_t reduced_bits(const Layout& l, Place4 p, int axis) {
  std::uint64_t mask = 0;
  for (int i = 0; i < l.bits(p); ++i) {
    if ((l.bases(p)[static_cast<std::size_t>(i)] & l.axis_mask(axis)) != 0) mask |= std::uint64_t{1} << i;
  }
  return mask;
}

// The bits of `x` under `mask`, packed.
std::uint64_t compress(std::uint64_t x, std::uint64_t mask) {
  std::uint64_t out = 0;
  for (int i = 0, k = 0; i < 64; ++i) {
    if ((mask >> i & 1) != 0) out |= (x >> i & 1) << k++;
  }
  return out;
}

}  // namespace

// What is reduced: one value, or a value and its index. A partial result is `width` LLVM values.
struct Reduction {
  using Partial = std::vector<llvm::Value*>;
  int axis = 0;
  std::vector<llvm::Type*> types;
  std::function<Partial(const Partial&, const Partial&)> combine;
  Partial identity;
};

// Reduces `lanes` (by register of `l`; empty where there is no code for it) along the axis; gives the registers of
// l.slice(axis), in every thread that holds them.
class AxisReducer {
 public:
  using Partial = Reduction::Partial;
  AxisReducer(GpuContext& c, const Layout& l, const Reduction& r) : c_(c), l_(l), r_(r), result_(l.slice(r.axis)) {}

  std::vector<Partial> in_registers(const std::vector<Partial>& lanes) {
    const std::uint64_t kept =
        ~reduced_bits(l_, Place4::reg, r_.axis) & ((std::uint64_t{1} << l_.bits(Place4::reg)) - 1);
    std::vector<std::vector<Partial>> chains(static_cast<std::size_t>(result_.registers()));
    for (std::size_t r = 0; r < lanes.size(); ++r) {
      if (lanes[r].empty()) continue;
      auto& chain = chains[compress(r, kept)];
      const std::size_t n = ++met_[&chain] - 1;
      if (chain.size() < accumulators) {
        chain.push_back(lanes[r]);
      } else {
        chain[n % accumulators] = r_.combine(chain[n % accumulators], lanes[r]);
      }
      c_.split_long_block();
    }
    std::vector<Partial> out;
    for (auto& chain : chains) {
      for (std::size_t step = 1; step < chain.size(); step *= 2) {
        for (std::size_t i = 0; i + step < chain.size(); i += 2 * step)
          chain[i] = r_.combine(chain[i], chain[i + step]);
      }
      out.push_back(chain.empty() ? Partial{} : chain[0]);
    }
    return out;
  }

  template <class Shuffle>
  void across_lanes(std::vector<Partial>& partials, Shuffle shuffle) {
    const std::uint64_t lanes = reduced_bits(l_, Place4::lane, r_.axis);
    for (int i = 4; i >= 0; --i) {
      if ((lanes >> i & 1) == 0) continue;
      for (Partial& p : partials) {
        if (p.empty()) continue;
        Partial other;
        for (llvm::Value* v : p) other.push_back(shuffle(v, c_.i32(std::int64_t{1} << i)));
        p = r_.combine(p, other);
      }
    }
  }

  // Every warp writes its partial results; after a barrier every thread combines those of all warps, in their order.
  template <class Store, class Load>
  void across_warps(std::vector<Partial>& partials, SharedScratch& scratch, Store store, Load load) {
    const std::uint64_t warps = reduced_bits(l_, Place4::warp, r_.axis);
    if (warps == 0) return;
    const int ways = 1 << std::popcount(warps);
    // A slot for each (register, other lane bits, other warp bits), with `ways` neighbours each.
    std::vector<std::uint64_t> place(static_cast<std::size_t>(5 + c_.warp_bits), 0);
    int bits = std::popcount(warps);
    std::uint64_t copies_of_lane = 0, copies_of_warp = 0;
    for (int i = 0; i < 5; ++i) {
      const bool moves = result_.bases(Place4::lane)[static_cast<std::size_t>(i)] != 0;
      if (moves) place[static_cast<std::size_t>(i)] = std::uint64_t{1} << bits++;
      if (!moves) copies_of_lane |= std::uint64_t{1} << i;
    }
    for (int i = 0, k = 0; i < c_.warp_bits; ++i) {
      auto& base = place[static_cast<std::size_t>(5 + i)];
      if ((warps >> i & 1) != 0) {
        base = std::uint64_t{1} << k++;
      } else if (result_.bases(Place4::warp)[static_cast<std::size_t>(i)] != 0) {
        base = std::uint64_t{1} << bits++;
      } else {
        copies_of_warp |= std::uint64_t{1} << i;
      }
    }
    std::vector<std::uint64_t> slot = place;
    for (std::uint64_t& base : slot) {
      if (base < static_cast<std::uint64_t>(ways)) base = 0;
    }
    llvm::Value* first = c_.is_first(copies_of_lane, copies_of_warp);
    const auto count = static_cast<std::int64_t>(partials.size()) << bits;
    std::vector<std::int64_t> base;
    std::int64_t total = 0;
    for (llvm::Type* t : r_.types) {
      base.push_back(total);
      total += count * bytes_of(t);
      total = (total + 15) / 16 * 16;
    }
    const std::int64_t start = scratch.allocate(total);
    const auto offset = [&](const std::vector<std::uint64_t>& bases, std::size_t which, std::size_t r, int way) {
      const std::int64_t bytes = bytes_of(r_.types[which]);
      llvm::Value* thread = c_.b.CreateMul(c_.thread_linear(bases), c_.i32(bytes));
      const std::int64_t constant = start + base[which] + ((static_cast<std::int64_t>(r) << bits) + way) * bytes;
      return c_.b.CreateAdd(thread, c_.i32(constant));
    };
    for (std::size_t r = 0; r < partials.size(); ++r) {
      for (std::size_t k = 0; k < partials[r].size(); ++k) store(offset(place, k, r, 0), partials[r][k], first);
    }
    scratch.barrier();
    for (std::size_t r = 0; r < partials.size(); ++r) {
      if (partials[r].empty()) continue;
      std::vector<Partial> all;
      for (int way = 0; way < ways; ++way) {
        Partial p;
        for (std::size_t k = 0; k < r_.types.size(); ++k) p.push_back(load(offset(slot, k, r, way), r_.types[k]));
        all.push_back(std::move(p));
      }
      for (std::size_t step = 1; step < all.size(); step *= 2) {
        for (std::size_t i = 0; i + step < all.size(); i += 2 * step) all[i] = r_.combine(all[i], all[i + step]);
      }
      partials[r] = all[0];
    }
  }

 private:
  static std::int64_t bytes_of(llvm::Type* t) {
    return t->isIntegerTy(1) ? 1 : static_cast<std::int64_t>(t->getPrimitiveSizeInBits() / 8);
  }

  GpuContext& c_;
  const Layout& l_;
  const Reduction& r_;
  const Layout result_;
  std::map<const void*, std::size_t> met_;
};

std::vector<std::vector<llvm::Value*>> GpuLowering::reduce_axis(const Layout& l, const Reduction& r,
                                                                const std::vector<std::vector<llvm::Value*>>& lanes) {
  AxisReducer reducer(c, l, r);
  auto partials = reducer.in_registers(lanes);
  reducer.across_lanes(partials,
                       [&](llvm::Value* v, llvm::Value* mask) { return shuffle(v, PrimitiveId::shuffle_bfly, mask); });
  reducer.across_warps(
      partials, scratch_, [&](llvm::Value* at, llvm::Value* v, llvm::Value* p) { shared_store(at, v, p); },
      [&](llvm::Value* at, llvm::Type* t) { return shared_load(at, t); });
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

void GpuLowering::lower_reduce(const Op& op) {
  const Value *x = op.operands[0], *result = op.results[0];
  const int axis = static_cast<int>(op.attrs.get_int(ir::AttrKey::axis));
  const Combine how = *ir::combine_from_name(op.attrs.get_text(ir::AttrKey::combine));
  const Dtype from = x->type.elem, t = is_narrow_float(from) ? Dtype::f32 : from;
  const Layout l = reducible_layout(x, axis);
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
