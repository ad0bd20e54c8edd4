// Choice of the instruction, the arrangement of warps, and the fragments' layouts. See gpu_dot_plan.h.
// Facts of the fragments: PTX ISA 8.3, "Matrix fragments for mma.m16n8k*" and "mma.m8n8k4 with .f64".
#include "tileweave/jit/codegen/gpu_dot_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/gpu_layouts.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::MmaOperand;
using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

int MmaInstruction::packed_bits() const {
  return is_f64() ? 0 : std::countr_zero(4u / static_cast<unsigned>(dtype_bytes(operand)));
}

std::int64_t shared_limit(const Target& t) {
  if (t.sm >= 90) return 227 * 1024;
  return t.sm == 80 ? 163 * 1024 : 99 * 1024;
}

std::optional<MmaInstruction> mma_instruction(Dtype t, bool tf32, int sm) {
  if (sm < 80) return std::nullopt;
  switch (t) {
    case Dtype::f16:
      return MmaInstruction{PrimitiveId::mma_f16, Element::none, t, 4, 3, 4};
    case Dtype::bf16:
      return MmaInstruction{PrimitiveId::mma_bf16, Element::none, t, 4, 3, 4};
    case Dtype::f32:
      if (!tf32) return std::nullopt;
      return MmaInstruction{PrimitiveId::mma_tf32, Element::none, t, 4, 3, 3};
    case Dtype::i8:
      return MmaInstruction{PrimitiveId::mma_s8, Element::none, t, 4, 3, 5};
    case Dtype::u8:
      return MmaInstruction{PrimitiveId::mma_u8, Element::none, t, 4, 3, 5};
    case Dtype::f8e4m3:
      if (sm < 89) return std::nullopt;
      return MmaInstruction{PrimitiveId::mma_fp8, Element::e4m3_e4m3, t, 4, 3, 5};
    case Dtype::f8e5m2:
      if (sm < 89) return std::nullopt;
      return MmaInstruction{PrimitiveId::mma_fp8, Element::e5m2_e5m2, t, 4, 3, 5};
    case Dtype::f64:
      return MmaInstruction{PrimitiveId::mma_f64, Element::none, t, 3, 3, 2};
    default:
      return std::nullopt;
  }
}

namespace {

// A thread has 255 registers; some are addresses and operands.
constexpr int most_accumulator_registers = 208;

// Bits of the warp's number along each kind of axis.
struct WarpSplit {
  int m = 0, n = 0, batch = 0, free = 0;
};

Layout f64_fragment(MmaOperand operand) {
  using Bases = Layout::Bases;
  switch (operand) {
    case MmaOperand::a:  // 8 x 4: row lane / 4, k lane % 4
      return Layout({3, 2}, {Bases{}, Bases{1, 2, 4, 8, 16}, Bases{}, Bases{}});
    case MmaOperand::b:  // 4 x 8: k lane % 4, column lane / 4
      return Layout({2, 3}, {Bases{}, Bases{8, 16, 1, 2, 4}, Bases{}, Bases{}});
    default:  // 8 x 8: row lane / 4, columns 2 (lane % 4) and the next
      return Layout({3, 3}, {Bases{1}, Bases{2, 4, 8, 16, 32}, Bases{}, Bases{}});
  }
}

Layout fragment(const MmaInstruction& how, MmaOperand operand) {
  if (how.is_f64()) return f64_fragment(operand);
  return ir::mma_fragment(operand, operand == MmaOperand::accumulator ? 4 : dtype_bytes(how.operand));
}

// The fragment repeated to fill a tile of `axis_bits`: warps first, then registers.
Layout tile_of_fragments(const MmaInstruction& how, MmaOperand operand, const std::vector<int>& axis_bits,
                         const WarpSplit& warps) {
  Layout inner = fragment(how, operand);
  const int rank = static_cast<int>(axis_bits.size());
  for (int a = 2; a < rank; ++a) inner = inner.expand_dims(0);
  std::vector<int> left;
  for (int a = 0; a < rank; ++a) left.push_back(axis_bits[static_cast<std::size_t>(a)] - inner.axis_bits(a));
  Layout outer(left);
  std::vector<int> used(left.size(), 0);
  const auto room = [&](int axis) {
    return left[static_cast<std::size_t>(axis)] - used[static_cast<std::size_t>(axis)];
  };
  const auto take = [&](int axis) {
    return std::uint64_t{1} << (outer.axis_shift(axis) + used[static_cast<std::size_t>(axis)]++);
  };
  const auto place = [&](int axis, int count) {
    for (int i = 0; i < count; ++i) outer.add_base(Place4::warp, axis >= 0 ? take(axis) : 0);
  };
  place(operand == MmaOperand::b ? -1 : rank - 2, warps.m);
  // Columns of a warp are neighbours, as those of a wgmma are: warps take the highest bits.
  if (operand != MmaOperand::a) left[static_cast<std::size_t>(rank - 1)] -= warps.n;
  for (int i = 0; i < warps.n; ++i) {
    const int bit = outer.axis_bits(rank - 1) - warps.n + i;
    outer.add_base(Place4::warp, operand == MmaOperand::a ? 0 : std::uint64_t{1} << bit);
  }
  for (int axis = rank - 3, i = 0; i < warps.batch; ++i) {
    while (room(axis) == 0) --axis;
    place(axis, 1);
  }
  place(-1, warps.free);
  for (int axis = rank - 1; axis >= 0; --axis) {
    while (room(axis) > 0) outer.add_base(Place4::reg, take(axis));
  }
  return Layout::product(inner, outer);
}

// Each doubling of the warps halves the longer side of what a warp computes: fewest bytes of operands. `rows`: only
// rows are split, so that a row of the result stays in one warp.
WarpSplit split_warps(const MmaInstruction& how, const std::vector<int>& bits, int warp_bits, bool rows) {
  const std::size_t rank = bits.size();
  int m = bits[rank - 2] - how.m_bits, n = bits[rank - 1] - how.n_bits, batch = 0;
  for (std::size_t a = 0; a + 2 < rank; ++a) batch += bits[a];
  WarpSplit split;
  for (int i = 0; i < warp_bits; ++i) {
    const bool wants_m = m > 0 && (rows || n == 0 || m + how.m_bits >= n + how.n_bits);
    if (wants_m) {
      --m, ++split.m;
    } else if (batch > 0 && (rows || n == 0)) {
      --batch, ++split.batch;
    } else if (n > 0) {
      --n, ++split.n;
    } else {
      ++split.free;
    }
  }
  return split;
}

// wgmma takes tf32 as it lies in memory, unrounded: those stay with mma.sync.
bool has_wgmma(Dtype t) { return dtype_bytes(t) <= 2 && t != Dtype::u8; }

void check_registers(const Op& op, const DotPlan& plan, int warps) {
  const ir::TileShape shape = shape_of(op.results[0]->type);
  int live = 0;
  for (int r = 0; r < plan.accumulator.registers(); ++r) live += shape.is_live(plan.accumulator, r) ? 1 : 0;
  live *= dtype_bytes(op.results[0]->type.elem) / 4;
  if (live <= most_accumulator_registers) return;
  throw_compile_error(op.place,
                      "dot: the accumulator " + to_string(op.results[0]->type) + " over " + std::to_string(warps) +
                          " warps needs " + std::to_string(4 * live) + " bytes of registers a thread, " +
                          std::to_string(4 * most_accumulator_registers) + " are there",
                      "lower the block's m or n, or raise Options::warps");
}

// Shapes whose rows are combined along the last axis somewhere, and whether a dot's operand hangs on another dot: then
// warps had better hold whole rows.
class RowUse {
 public:
  explicit RowUse(const ir::Function& f) {
    ir::for_each_op(f.body(), [&](const Op& op) {
      if (op.id == OpId::reduce || op.id == OpId::arg_reduce) {
        const ir::Type& t = op.operands[0]->type;
        if (op.attrs.get_int(ir::AttrKey::axis) == t.rank - 1) reduced_.insert(t.shape());
      }
      if (op.id == OpId::dot) chained_ |= hangs_on_dot(op.operands[0], 0);
    });
  }
  bool wants_rows(const Op& dot) const { return chained_ || reduced_.contains(dot.results[0]->type.shape()); }

 private:
  static bool hangs_on_dot(const Value* v, int depth) {
    constexpr int far = 24;
    if (v->def == nullptr || depth > far || v->type.rank < 2) return false;
    if (v->def->id == OpId::dot) return true;
    if (!v->def->regions.empty()) return false;
    return std::any_of(v->def->operands.begin(), v->def->operands.end(),
                       [&](const Value* x) { return hangs_on_dot(x, depth + 1); });
  }
  std::set<ir::Extents> reduced_;
  bool chained_ = false;
};

}  // namespace

DotPlans::DotPlans(const ir::Function& f, const Target& target, int warps) {
  const RowUse rows(f);
  const int warp_bits = std::countr_zero(static_cast<unsigned>(warps));
  ir::for_each_op(f.body(), [&](const Op& op) {
    if (op.id != OpId::dot) return;
    const bool tf32 = op.attrs.get_text(ir::AttrKey::precision) == "tf32";
    const auto how = mma_instruction(op.operands[0]->type.elem, tf32, target.sm);
    if (!how) return;
    const std::vector<int> a = shape_of(op.operands[0]->type).axis_bits(),
                           b = shape_of(op.operands[1]->type).axis_bits(),
                           out = shape_of(op.results[0]->type).axis_bits();
    const std::size_t m = out.size() - 2, n = m + 1;
    if (out[m] < how->m_bits || out[n] < how->n_bits || a[n] < how->k_bits) return;
    const bool groups = target.arch_specific && has_wgmma(how->operand) && warp_bits >= 2 && out[m] >= 6;
    // Operands that shared memory cannot hold whole are multiplied in parts, without tensor cores.
    const std::int64_t elements =
        (std::int64_t{1} << (ir::Layout(a).flat_bits())) + (std::int64_t{1} << ir::Layout(b).flat_bits());
    if (elements * dtype_bytes(how->operand) > shared_limit(target)) return;
    const WarpSplit split = split_warps(*how, out, warp_bits, groups || rows.wants_rows(op));
    DotPlan plan;
    plan.has_warp_groups = groups;
    plan.how = *how;
    plan.a = tile_of_fragments(*how, MmaOperand::a, a, split);
    plan.b = tile_of_fragments(*how, MmaOperand::b, b, split);
    plan.accumulator = tile_of_fragments(*how, MmaOperand::accumulator, out, split);
    plan.m_bits = out[m] - how->m_bits - split.m;
    plan.n_bits = out[n] - how->n_bits - split.n;
    plan.k_bits = a[n] - how->k_bits;
    for (std::size_t i = 0; i < m; ++i) plan.batch_bits += out[i];
    plan.batch_bits -= split.batch;
    check_registers(op, plan, warps);
    plans_.emplace(&op, std::move(plan));
  });
}

int DotPlan::steps(const Op& dot) const {
  const ir::Type& t = dot.operands[0]->type;
  const std::int64_t depth = t.extents[static_cast<std::size_t>(t.rank - 1)], one = std::int64_t{1} << how.k_bits;
  return static_cast<int>((depth + one - 1) / one);
}

const DotPlan* DotPlans::of(const Op& op) const {
  const auto at = plans_.find(&op);
  return at == plans_.end() ? nullptr : &at->second;
}

}  // namespace tileweave::codegen
