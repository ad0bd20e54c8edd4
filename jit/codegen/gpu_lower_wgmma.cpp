// Lowering of dot as wgmma: B described in shared memory, A there too or in registers, 64 rows of the result a warp
// group and instruction. Accumulators lie as mma.sync's do, so nothing else changes with the instruction. Facts: PTX
// ISA 8.3, "wgmma.mma_async": fragments, fences, groups.
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/gpu_wgmma.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::Place4;

namespace {

constexpr int most_columns = 256;

Element wgmma_element(Dtype t) {
  switch (t) {
    case Dtype::f16:
      return Element::f16;
    case Dtype::bf16:
      return Element::bf16;
    case Dtype::f8e4m3:
      return Element::e4m3;
    case Dtype::f8e5m2:
      return Element::e5m2;
    default:
      return Element::s8;
  }
}

}  // namespace

// Blocks of up to 256 columns, as far as columns exist in some warp group.
std::vector<std::pair<int, int>> GpuLowering::wgmma_columns(const Op& op, const DotPlan& plan) const {
  const ir::TileShape shape = shape_of(op.results[0]->type);
  const int size = 1 << plan.how.accumulator_bits();
  int live = 0;
  for (int n = 0; n < 1 << plan.n_bits; ++n) {
    if (shape.is_live(plan.accumulator, n * size)) live = n + 1;
  }
  // Products of i8 have no other sizes than multiples of 16 beyond 24.
  if (plan.how.operand == Dtype::i8 && live > 2) live = (live + 1) / 2 * 2;
  std::vector<std::pair<int, int>> blocks;
  for (int n = 0; n < live; n += most_columns / 8) blocks.emplace_back(n, std::min(live - n, most_columns / 8));
  return blocks;
}

std::optional<WgmmaMatrix> GpuLowering::describe_operand(const DotPlan& plan, const FetchedOperand& operand,
                                                         bool is_a) {
  if (!operand.memory) return std::nullopt;
  const Layout& l = is_a ? plan.a : plan.b;
  const int mn_axis = is_a ? l.rank() - 2 : l.rank() - 1, k_axis = is_a ? l.rank() - 1 : l.rank() - 2;
  auto m = WgmmaMatrix::describe(*operand.memory, l.shape_bits(), mn_axis, k_axis);
  if (!m) return std::nullopt;
  const auto& warps = l.bases(Place4::warp);
  m->begin(c, {warps.begin() + 2, warps.end()});
  return m;
}

// The accumulators of the tile as those of instructions: registers first, first + 1, ... of each.
std::vector<GpuLowering::WgmmaBlock> GpuLowering::wgmma_blocks(const Op& op, const DotPlan& plan, const Regs& acc) {
  const int size = 1 << plan.how.accumulator_bits();
  llvm::Type* type = c.elements.register_type(op.results[0]->type.elem);
  std::vector<WgmmaBlock> blocks;
  for (int rows = 0; rows < 1 << (plan.m_bits + plan.batch_bits); ++rows) {
    for (const auto& [column, count] : wgmma_columns(op, plan)) {
      WgmmaBlock x{(rows << plan.n_bits | column) * size, count * size, rows, column, nullptr};
      x.sums = llvm::PoisonValue::get(llvm::ArrayType::get(type, static_cast<unsigned>(x.count)));
      for (int i = 0; i < x.count; ++i) {
        llvm::Value* v = acc[static_cast<std::size_t>(x.first + i)];
        if (v == nullptr) v = llvm::Constant::getNullValue(type);
        x.sums = c.b.CreateInsertValue(x.sums, v, static_cast<unsigned>(i));
      }
      blocks.push_back(x);
    }
  }
  return blocks;
}

bool GpuLowering::lower_wgmma(const Op& op, const DotPlan& plan, std::vector<FetchedOperand>& operands) {
  const std::optional<WgmmaMatrix> b = describe_operand(plan, operands[1], false);
  if (!b) return false;
  const std::optional<WgmmaMatrix> a = describe_operand(plan, operands[0], true);
  const int steps = plan.steps(op);
  std::vector<Words> in_registers;
  for (int k = 0; !a && k < steps; ++k) in_registers.push_back(operands[0].fragments.step(k));
  Regs acc = get(op.operands[2], plan.accumulator);
  std::vector<WgmmaBlock> blocks = wgmma_blocks(op, plan, acc);

  const Element element = wgmma_element(plan.how.operand);
  const WordOrder order_a = order_of_a(plan), order_b = order_of_b(plan);
  const auto flat = [&](const Layout& l, int word) {
    return l.apply(static_cast<std::uint64_t>(word) << plan.how.packed_bits());
  };
  c.call(PrimitiveId::wgmma_fence, {c.site()});
  for (int k = 0; k < steps; ++k) {
    for (WgmmaBlock& x : blocks) {
      const int batch = x.rows >> plan.m_bits;
      llvm::Value* of_b = b->at(c, flat(plan.b, order_b.word((x.column | batch << plan.n_bits) << 1, k)));
      llvm::Value *keep = c.i32(1), *turned = c.i32(b->is_transposed() ? 1 : 0);
      if (a) {
        llvm::Value* of_a = a->at(c, flat(plan.a, order_a.word(x.rows << 2, k)));
        llvm::Function* f = declare_primitive(*c.module, PrimitiveId::wgmma_ss, element, x.count);
        x.sums = c.b.CreateCall(f, {x.sums, of_a, of_b, keep, c.i32(a->is_transposed() ? 1 : 0), turned, c.site()});
      } else {
        llvm::Value* words =
            vector_of(c, in_registers[static_cast<std::size_t>(k)], static_cast<std::size_t>(4 * x.rows), 4);
        llvm::Function* f = declare_primitive(*c.module, PrimitiveId::wgmma_rs, element, x.count);
        x.sums = c.b.CreateCall(f, {x.sums, words, of_b, keep, turned, c.site()});
      }
    }
  }
  c.call(PrimitiveId::wgmma_commit, {c.site()});
  if (lagging_ == &op && a) {
    // The sums of the iteration before are there after this; who uses them waits behind the loop.
    c.call(PrimitiveId::wgmma_wait, {c.i32(1), c.site()});
    is_under_way_ = true;
    take_sums(op, plan, blocks, acc);
  } else {
    wait_for_wgmma(op, plan, blocks, acc);
  }
  define(op.results[0], plan.accumulator, acc);
  return true;
}

void GpuLowering::take_sums(const Op& op, const DotPlan& plan, const std::vector<WgmmaBlock>& blocks, Regs& acc) {
  const ir::TileShape shape = shape_of(op.results[0]->type);
  for (const WgmmaBlock& x : blocks) {
    for (int i = 0; i < x.count; ++i) {
      if (!shape.is_live(plan.accumulator, x.first + i)) continue;
      acc[static_cast<std::size_t>(x.first + i)] = c.b.CreateExtractValue(x.sums, static_cast<unsigned>(i));
    }
  }
}

// Until the sums are there; their uses stay behind the wait.
void GpuLowering::wait_for_wgmma(const Op& op, const DotPlan& plan, std::vector<WgmmaBlock>& blocks, Regs& acc) {
  const Element element = plan.how.operand == Dtype::i8 ? Element::s8 : Element::f32;
  for (WgmmaBlock& x : blocks) {
    llvm::Function* wait = declare_primitive(*c.module, PrimitiveId::wgmma_wait_tied, element, x.count);
    x.sums = c.b.CreateCall(wait, {x.sums, c.i32(0), c.site()});
  }
  take_sums(op, plan, blocks, acc);
}

// After a loop whose last products are under way.
void GpuLowering::finish_wgmma(const Op& dot, Regs& acc) {
  if (!is_under_way_) return;
  is_under_way_ = false;
  const DotPlan& plan = *dots_.of(dot);
  std::vector<WgmmaBlock> blocks = wgmma_blocks(dot, plan, acc);
  wait_for_wgmma(dot, plan, blocks, acc);
}

}  // namespace tileweave::codegen
