// device_print, device_assert and checks on the GPU: records in the launch's channel (jit/base/channel.h).
// Plain atomics and stores, so the same code runs under SIMT emulation.
#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::AttrKey;
using ir::Layout;
using ir::Op;

// The last parameter of a kernel that has a channel.
llvm::Value* GpuLowering::channel() { return c.kernel->getArg(static_cast<unsigned>(c.kernel->arg_size()) - 1); }

int GpuLowering::add_text(ChannelText text) {
  // The versions of a kernel lower an op several times.
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].place == text.place && texts_[i].text == text.text && texts_[i].kind == text.kind &&
        texts_[i].type == text.type && texts_[i].elements == text.elements) {
      return static_cast<int>(i);
    }
  }
  texts_.push_back(std::move(text));
  return static_cast<int>(texts_.size()) - 1;
}

llvm::Value* GpuLowering::linear_program() {
  llvm::Value* plane = c.b.CreateAdd(program_ids_[1], c.b.CreateMul(grid_[1], program_ids_[2]));
  return c.b.CreateAdd(program_ids_[0], c.b.CreateMul(grid_[0], plane));
}

// One record, where the predicate (null: always) holds and there is room.
void GpuLowering::write_record(const ChannelArea& area, int text, llvm::Value* element, llvm::Value* bits,
                               llvm::Value* extent, llvm::Value* predicate) {
  llvm::IRBuilder<>& b = c.b;
  if (predicate == nullptr) predicate = b.getTrue();
  llvm::Value* counter = b.CreateAdd(channel(), c.i64(area.counter));
  llvm::Value* number = c.call(PrimitiveId::global_atomic_add, Element::i32, {counter, c.i32(1), predicate, c.site()});
  llvm::Value* room = b.CreateAnd(predicate, b.CreateICmpULT(number, c.i32(area.capacity)));
  llvm::Value* wide = b.CreateZExt(number, b.getInt64Ty());
  llvm::Value* at =
      b.CreateAdd(channel(), b.CreateAdd(c.i64(area.begin), b.CreateMul(wide, c.i64(channel::record_bytes))));
  llvm::Value* head = b.CreateOr(c.i64(text), b.CreateShl(b.CreateZExt(element, b.getInt64Ty()), c.i64(32)));
  llvm::Value* words[] = {head, linear_program(), bits, extent};
  for (std::int64_t i = 0; i < 4; ++i) {
    c.call(PrimitiveId::global_store, Element::i64,
           {b.CreateAdd(at, c.i64(8 * i)), words[i], room, c.i32(0), c.site()});
  }
}

void GpuLowering::lower_print(const Op& op) {
  const ir::Value* v = op.operands[0];
  const ir::Type& t = v->type;
  const int text = add_text({ChannelText::Kind::print, t.is_pointer() ? Dtype::u64 : t.elem, t.elements(),
                             op.attrs.get_text(AttrKey::place), op.attrs.get_text(AttrKey::text)});
  const Layout& l = layout_of(v);
  const Regs regs = get(v, l);
  TileFrame frame(c, l, shape_of(t));
  llvm::Value* first = c.is_first(l.free_mask(ir::Place4::lane), l.free_mask(ir::Place4::warp));
  for (int r = 0; r < frame.registers(); ++r) {
    llvm::Value* x = regs[static_cast<std::size_t>(r)];
    if (x == nullptr || (t.rank > 0 && !frame.is_live(r))) continue;
    if (!t.is_pointer()) {
      x = c.elements.to_memory(x, t.elem);
      const unsigned bits = static_cast<unsigned>(x->getType()->getPrimitiveSizeInBits());
      x = c.b.CreateZExt(c.b.CreateBitCast(x, c.b.getIntNTy(bits)), c.b.getInt64Ty());
    }
    llvm::Value* exists = t.rank > 0 ? frame.exists(r) : nullptr;
    llvm::Value* element = t.rank > 0 ? row_major_index(c, frame, r) : c.i32(0);
    write_record({0, channel::prints_at, channel::print_capacity}, text, element, x, c.i64(0), c.both(first, exists));
    c.split_long_block();
  }
}

void GpuLowering::lower_assert(const Op& op) {
  const bool is_check = op.operands.size() > 1;
  const int text = add_text({is_check ? ChannelText::Kind::check : ChannelText::Kind::failure, Dtype::boolean, 1,
                             op.attrs.get_text(AttrKey::place), op.attrs.get_text(AttrKey::text)});
  const Layout& l = scalar_layout_;
  llvm::Value* first = c.is_first(l.free_mask(ir::Place4::lane), l.free_mask(ir::Place4::warp));
  llvm::Value* fails = c.both(first, c.b.CreateNot(scalar(op.operands[0])));
  llvm::Value* index = is_check ? scalar(op.operands[1]) : c.i64(0);
  llvm::Value* extent = is_check ? scalar(op.operands[2]) : c.i64(0);
  write_record({4, channel::header_bytes, channel::failure_capacity}, text, c.i32(0), index, extent, fails);
}

}  // namespace tileweave::codegen
