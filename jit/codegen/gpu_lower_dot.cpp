// Lowering of dot as plain multiply-adds: both operands go to shared memory, every thread reads the rows and columns of
// its accumulators. Right for every element type and shape; gpu_lower_mma.cpp takes what tensor cores can.
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <map>

#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

namespace {

constexpr std::int64_t operand_bytes = 48 * 1024;  // of both operands; longer sums are done in parts

}  // namespace

llvm::Value* round_to_tf32(GpuContext& c, llvm::Value* x) {
  llvm::IRBuilder<>& b = c.b;
  llvm::Value* bits = b.CreateBitCast(x, b.getInt32Ty());
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(bits, 13), 1);
  llvm::Value* rounded = b.CreateAnd(b.CreateAdd(bits, b.CreateAdd(odd, c.i32(0xfff))), c.i32(~std::int64_t{0x1fff}));
  llvm::Value* special = b.CreateICmpEQ(b.CreateAnd(bits, c.i32(0x7f800000)), c.i32(0x7f800000));
  llvm::Value* kept = b.CreateSelect(b.CreateFCmpUNO(x, x), b.CreateOr(bits, c.i32(0x400000)), bits);
  return b.CreateBitCast(b.CreateSelect(special, kept, rounded), x->getType());
}

// Writes the part [k0, k0 + part) along axis `k_axis` of an operand to shared memory at `base`, row-major.
void GpuLowering::stage_operand(const Value* v, int k_axis, std::int64_t k0, std::int64_t part, std::int64_t base) {
  const Layout& l = layout_of(v);
  const Regs& held = get(v, l);
  TileFrame frame(c, l, shape_of(v->type));
  llvm::Value* first = c.is_first(l.free_mask(Place4::lane), l.free_mask(Place4::warp));
  const std::int64_t bytes = dtype_bytes(v->type.elem), whole = v->type.extents[static_cast<std::size_t>(k_axis)];
  for (int r = 0; r < frame.registers(); ++r) {
    if (held[static_cast<std::size_t>(r)] == nullptr) continue;
    llvm::Value* p = c.both(first, frame.exists(r));
    llvm::Value* index = c.i32(0);
    for (int a = 0; a < frame.rank(); ++a) {
      llvm::Value* at = frame.coordinate(a, r);
      std::int64_t extent = v->type.extents[static_cast<std::size_t>(a)];
      if (a == k_axis && part != whole) {
        at = c.b.CreateSub(at, c.i32(k0));
        p = c.both(p, c.b.CreateICmpULT(at, c.i32(part)));
        extent = part;
      }
      index = c.b.CreateAdd(c.b.CreateMul(index, c.i32(extent)), at);
    }
    shared_store(c.b.CreateAdd(c.b.CreateMul(index, c.i32(bytes)), c.i32(base)), held[static_cast<std::size_t>(r)], p);
    c.split_long_block();
  }
}

// acc += a * b for the staged part: a loop over k, all accumulators of the thread in its body.
Regs GpuLowering::multiply_staged(const Op& op, const Regs& acc, std::int64_t part, std::int64_t base_a,
                                  std::int64_t base_b) {
  const ir::Type &a = op.operands[0]->type, &out = op.results[0]->type;
  const Dtype from = a.elem, to = out.elem;
  const bool tf32 = op.attrs.get_text(ir::AttrKey::precision) == "tf32";
  const int m_axis = out.rank - 2, n_axis = out.rank - 1;
  const std::int64_t m = out.extents[static_cast<std::size_t>(m_axis)],
                     n = out.extents[static_cast<std::size_t>(n_axis)];
  const std::int64_t bytes = dtype_bytes(from);
  const Layout& l = layout_of(op.results[0]);
  TileFrame frame(c, l, shape_of(out));

  llvm::BasicBlock* before = c.b.GetInsertBlock();
  llvm::BasicBlock *loop = c.new_block("dot"), *after = c.new_block("dotted");
  // Offsets of the rows of a and columns of b that the accumulators need, one for each different one; they do not
  // change in the loop, so they are emitted before it. Elements that do not exist are given the first row and column.
  std::map<std::vector<std::int64_t>, std::size_t> row_of, column_of;
  std::vector<llvm::Value*> rows, columns;
  std::vector<std::pair<std::size_t, std::size_t>> needs(acc.size());
  for (int r = 0; r < frame.registers(); ++r) {
    if (acc[static_cast<std::size_t>(r)] == nullptr) continue;
    llvm::Value* exists = frame.exists(r);
    const auto offset = [&](int axis, std::map<std::vector<std::int64_t>, std::size_t>& known,
                            std::vector<llvm::Value*>& offsets) {
      std::vector<std::int64_t> which;
      for (int i = 0; i < m_axis; ++i) which.push_back(frame.register_coordinate(i, r));
      which.push_back(frame.register_coordinate(axis, r));
      const auto [at, fresh] = known.insert({which, offsets.size()});
      if (!fresh) return at->second;
      llvm::Value* batch = c.i32(0);
      for (int i = 0; i < m_axis; ++i) {
        batch = c.b.CreateMul(batch, c.i32(out.extents[static_cast<std::size_t>(i)]));
        batch = c.b.CreateAdd(batch, frame.coordinate(i, r));
      }
      llvm::Value* own = frame.coordinate(axis, r);
      llvm::Value* index = axis == m_axis
                               ? c.b.CreateMul(c.b.CreateAdd(c.b.CreateMul(batch, c.i32(m)), own), c.i32(part))
                               : c.b.CreateAdd(c.b.CreateMul(batch, c.i32(part * n)), own);
      // A neighbour may share the row and exist: only coordinates past the tile's own extent are replaced.
      llvm::Value* extent = c.i32(axis == m_axis ? m : n);
      llvm::Value* valid = c.b.CreateICmpULT(own, extent);
      for (int i = 0; i < m_axis; ++i) {
        valid = c.b.CreateAnd(
            valid, c.b.CreateICmpULT(frame.coordinate(i, r), c.i32(out.extents[static_cast<std::size_t>(i)])));
      }
      if (exists != nullptr) index = c.b.CreateSelect(valid, index, c.i32(0));
      offsets.push_back(c.b.CreateAdd(c.b.CreateMul(index, c.i32(bytes)), c.i32(axis == m_axis ? base_a : base_b)));
      return at->second;
    };
    needs[static_cast<std::size_t>(r)] = {offset(m_axis, row_of, rows), offset(n_axis, column_of, columns)};
    c.split_long_block();
  }
  before = c.b.GetInsertBlock();
  c.b.CreateBr(loop);
  c.b.SetInsertPoint(loop);
  llvm::PHINode* k = c.b.CreatePHI(c.b.getInt32Ty(), 2);
  k->addIncoming(c.i32(0), before);
  Regs phis(acc.size(), nullptr);
  for (std::size_t r = 0; r < acc.size(); ++r) {
    if (acc[r] == nullptr) continue;
    llvm::PHINode* phi = c.b.CreatePHI(acc[r]->getType(), 2);
    phi->addIncoming(acc[r], before);
    phis[r] = phi;
  }
  const auto read = [&](llvm::Value* at, std::int64_t step) {
    llvm::Value* offset = c.b.CreateAdd(at, c.b.CreateMul(k, c.i32(step)));
    llvm::Value* v = c.elements.convert(shared_load(offset, c.elements.register_type(from)), from, to);
    return tf32 ? round_to_tf32(c, v) : v;
  };
  std::vector<llvm::Value*> row_values, column_values;
  for (llvm::Value* at : rows) row_values.push_back(read(at, bytes));
  for (llvm::Value* at : columns) column_values.push_back(read(at, bytes * n));
  Regs next(acc.size(), nullptr);
  for (std::size_t r = 0; r < acc.size(); ++r) {
    if (acc[r] == nullptr) continue;
    const std::array<llvm::Value*, 3> operands{row_values[needs[r].first], column_values[needs[r].second], phis[r]};
    next[r] = c.elements.op(OpId::fma, to, operands);
    c.split_long_block();
  }
  llvm::Value* k_next = c.b.CreateAdd(k, c.i32(1));
  k->addIncoming(k_next, c.b.GetInsertBlock());
  for (std::size_t r = 0; r < acc.size(); ++r) {
    if (phis[r] != nullptr) llvm::cast<llvm::PHINode>(phis[r])->addIncoming(next[r], c.b.GetInsertBlock());
  }
  c.b.CreateCondBr(c.b.CreateICmpULT(k_next, c.i32(part)), loop, after);
  c.b.SetInsertPoint(after);
  return next;
}

void GpuLowering::lower_dot(const Op& op) {
  if (const DotPlan* plan = dots_.of(op)) return lower_mma(op, *plan);
  const Value *a = op.operands[0], *b = op.operands[1];
  const Layout& l = layout_of(op.results[0]);
  Regs acc = get(op.operands[2], l);
  const int rank = a->type.rank;
  const std::int64_t depth = a->type.extents[static_cast<std::size_t>(rank - 1)];
  const std::int64_t bytes = dtype_bytes(a->type.elem);
  const std::int64_t of_one = (a->type.elements() + b->type.elements()) / depth * bytes;
  const std::int64_t part = std::clamp<std::int64_t>(operand_bytes / of_one, 1, depth);
  for (std::int64_t k0 = 0; k0 < depth; k0 += part) {
    const std::int64_t here = std::min(part, depth - k0);
    const std::int64_t bytes_a = (a->type.elements() / depth * here * bytes + 15) / 16 * 16;
    const std::int64_t base = scratch_.allocate(bytes_a + b->type.elements() / depth * here * bytes);
    stage_operand(a, rank - 1, k0, here, base);
    stage_operand(b, rank - 2, k0, here, base + bytes_a);
    scratch_.barrier();
    acc = multiply_staged(op, acc, here, base, base + bytes_a);
  }
  set(op.results[0], std::move(acc));
}

}  // namespace tileweave::codegen
