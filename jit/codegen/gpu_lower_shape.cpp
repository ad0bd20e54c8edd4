// Constants, iota, and reshapes that no relabelling of registers can do.
// The other shape ops emit nothing: see GpuLowering::make_again.
#include <map>

#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::Layout;

Regs GpuLowering::constant_regs(const ir::Op& op, const Layout& l) {
  const ir::Type& t = op.results[0]->type;
  llvm::Constant* x =
      c.elements.constant_bits(t.elem, static_cast<std::uint64_t>(op.attrs.get_int(ir::AttrKey::value)));
  Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
  for (int r = 0; r < l.registers(); ++r) {
    if (t.rank == 0 || shape_of(t).is_live(l, r)) regs[static_cast<std::size_t>(r)] = x;
  }
  return regs;
}

Regs GpuLowering::iota_regs(const ir::Op& op, const Layout& l) {
  const ir::Type& t = op.results[0]->type;
  TileFrame frame(c, l, shape_of(t));
  const auto start = op.attrs.get_int(ir::AttrKey::start);
  Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
  for (int r = 0; r < l.registers(); ++r) {
    if (!frame.is_live(r)) continue;
    llvm::Value* at = frame.coordinate(0, r);
    if (t.elem == Dtype::i64) at = c.b.CreateZExt(at, c.b.getInt64Ty());
    regs[static_cast<std::size_t>(r)] =
        c.b.CreateAdd(at, llvm::ConstantInt::get(at->getType(), static_cast<std::uint64_t>(start), true));
  }
  return regs;
}

llvm::Value* row_major_index(GpuContext& c, TileFrame& frame, int r) {
  llvm::Value* index = nullptr;
  for (int a = 0; a < frame.rank(); ++a) {
    llvm::Value* at = frame.coordinate(a, r);
    if (index == nullptr) {
      index = at;
    } else {
      index = c.b.CreateAdd(c.b.CreateMul(index, c.i32(frame.shape().extents[static_cast<std::size_t>(a)])), at);
    }
  }
  return index == nullptr ? c.i32(0) : index;
}

// Elements go to shared memory in row-major order and come back at their new coordinates.
void GpuLowering::lower_reshape_in_memory(const ir::Op& op) {
  const ir::Value *from = op.operands[0], *to = op.results[0];
  const Regs held = get(from);
  llvm::Type* type = from->type.is_pointer() ? c.b.getInt64Ty() : c.elements.register_type(from->type.elem);
  const std::int64_t bytes = type->isIntegerTy(1) ? 1 : type->getPrimitiveSizeInBits() / 8;
  const std::int64_t base = scratch_.allocate(bytes * from->type.elements());
  const auto offset = [&](TileFrame& frame, int r) {
    return c.b.CreateAdd(c.b.CreateMul(row_major_index(c, frame, r), c.i32(bytes)), c.i32(base));
  };
  const Layout& source = layout_of(from);
  TileFrame write(c, source, shape_of(from->type));
  llvm::Value* first = c.is_first(source.free_mask(ir::Place4::lane), source.free_mask(ir::Place4::warp));
  for (int r = 0; r < write.registers(); ++r) {
    if (!write.is_live(r)) continue;
    llvm::Value* predicate = write.exists(r);
    if (first != nullptr) predicate = predicate == nullptr ? first : c.b.CreateAnd(predicate, first);
    shared_store(offset(write, r), held[static_cast<std::size_t>(r)], predicate);
    c.split_long_block();
  }
  scratch_.barrier();
  const Layout& target = layout_of(to);
  TileFrame read(c, target, shape_of(to->type));
  Regs regs(static_cast<std::size_t>(read.registers()), nullptr);
  for (int r = 0; r < read.registers(); ++r) {
    if (!read.is_live(r)) continue;
    // Elements that do not exist read some element: what they hold means nothing.
    llvm::Value* at = offset(read, r);
    if (llvm::Value* exists = read.exists(r)) at = c.b.CreateSelect(exists, at, c.i32(base));
    regs[static_cast<std::size_t>(r)] = shared_load(at, type);
    c.split_long_block();
  }
  set(to, std::move(regs));
}

}  // namespace tileweave::codegen
