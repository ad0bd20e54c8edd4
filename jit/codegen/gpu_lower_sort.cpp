// Lowering of sort and argsort: order keys, with positions where they matter, through a bitonic network over the bits
// of the axis. A step exchanges registers, shuffles lanes or passes through shared memory, as the bit's place is.
#include <llvm/IR/Constants.h>

#include "tileweave/jit/codegen/gpu_axis.h"
#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/lower_order.h"

namespace tileweave::codegen {

using ir::AttrKey;
using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

namespace {

constexpr std::int64_t absent_bit = std::int64_t{1} << 31;  // of a position: the lane does not count

// What is sorted: a key and, where equal ones must be told apart, a position (null elsewhere).
struct Item {
  llvm::Value *key = nullptr, *position = nullptr;
};

// A coordinate's bit as a flag: the thread's part once, the register's part a constant.
class CoordinateBit {
 public:
  CoordinateBit(GpuContext& c, TileFrame& frame, int axis, int bit)
      : c_(c), frame_(frame), axis_(axis), mask_(std::int64_t{1} << bit) {
    llvm::Value* own = c.b.CreateAnd(frame.thread_coordinate(axis), c.i32(mask_));
    thread_ = c.b.CreateICmpNE(own, c.i32(0));
  }
  llvm::Value* of(std::size_t r) {
    const bool turned = (frame_.register_coordinate(axis_, static_cast<int>(r)) & mask_) != 0;
    return turned ? c_.b.CreateNot(thread_) : thread_;
  }

 private:
  GpuContext& c_;
  TileFrame& frame_;
  int axis_;
  std::int64_t mask_;
  llvm::Value* thread_;
};

}  // namespace

void GpuLowering::lower_sort(const Op& op) {
  const Value* x = op.operands[0];
  const int axis = static_cast<int>(op.attrs.get_int(AttrKey::axis));
  const bool descending = op.attrs.get_int(AttrKey::descending) != 0, indices = op.id == OpId::argsort;
  const Layout l = is_movable(layout_of(x)) ? layout_of(x) : scannable_layout(x, axis);
  const Regs& held = get(x, l);
  const Regs* mask = op.operands.size() == 2 ? &get(op.operands[1], l) : nullptr;
  c.enter_op(op);
  const Dtype t = x->type.elem;
  const bool has_position = indices || mask != nullptr;
  llvm::Type* key_type = c.b.getIntNTy(order_key_bits(t));
  llvm::Value* last_key = llvm::Constant::getAllOnesValue(key_type);

  TileFrame frame(c, l, shape_of(x->type));
  std::uint64_t along = 0;  // register bits that move the axis
  for (int bit = 0; bit < l.axis_bits(axis); ++bit) along |= axis_move(l, axis, bit).reg;
  std::vector<Item> items(held.size());
  for (std::size_t r = 0; r < items.size(); ++r) {
    bool wanted = false;  // dead registers along the axis are padding; those of other lines take no part
    for (std::size_t k = 0; k < items.size(); ++k) wanted = wanted || (((k ^ r) & ~along) == 0 && held[k] != nullptr);
    if (!wanted) continue;
    Item& item = items[r];
    item.key = last_key;
    llvm::Value* at = frame.coordinate(axis, static_cast<int>(r));
    llvm::Value* absent = c.b.CreateOr(at, c.i32(absent_bit));
    if (has_position) item.position = absent;
    if (held[r] == nullptr) continue;
    llvm::Value* key = to_order_key(c.elements, held[r], t, descending);
    llvm::Value* counted = counts(frame, static_cast<int>(r), mask);
    item.key = counted == nullptr ? key : c.b.CreateSelect(counted, key, last_key);
    if (has_position) item.position = counted == nullptr ? at : c.b.CreateSelect(counted, at, absent);
    c.split_long_block();
  }

  const auto before = [&](const Item& a, const Item& b) {
    llvm::Value* less = c.b.CreateICmpULT(a.key, b.key);
    if (!has_position) return less;
    llvm::Value* tie = c.b.CreateAnd(c.b.CreateICmpEQ(a.key, b.key), c.b.CreateICmpULT(a.position, b.position));
    return c.b.CreateOr(less, tie);
  };
  const auto choose = [&](llvm::Value* flag, const Item& a, const Item& b) {
    return Item{c.b.CreateSelect(flag, a.key, b.key),
                has_position ? c.b.CreateSelect(flag, a.position, b.position) : nullptr};
  };
  const int bits = l.axis_bits(axis);
  for (int size = 1; size <= bits; ++size) {
    CoordinateBit down(c, frame, axis, size < bits ? size : 0);
    for (int bit = size - 1; bit >= 0; --bit) {
      const PlaceMove move = axis_move(l, axis, bit);
      CoordinateBit second(c, frame, axis, bit);
      std::vector<llvm::Value*> sent;
      for (std::size_t r = 0; r < items.size(); ++r) {
        const Item& item = items[r ^ move.reg];
        if (item.key == nullptr) continue;
        sent.push_back(item.key);
        if (has_position) sent.push_back(item.position);
      }
      const std::vector<llvm::Value*> got = from_others(sent, move);
      std::vector<Item> next(items.size());
      std::size_t n = 0;
      for (std::size_t r = 0; r < items.size(); ++r) {
        if (items[r].key == nullptr) continue;
        Item other;
        other.key = got[n++];
        if (has_position) other.position = got[n++];
        // The greater one is kept where the place is the second of the two and the block goes upwards, or neither.
        llvm::Value* greatest = second.of(r);
        if (size < bits) greatest = c.b.CreateXor(greatest, down.of(r));
        llvm::Value* take = c.b.CreateXor(before(other, items[r]), greatest);
        next[r] = choose(take, other, items[r]);
        c.split_long_block();
      }
      items = std::move(next);
    }
  }

  Regs regs(items.size(), nullptr);
  for (std::size_t r = 0; r < items.size(); ++r) {
    if (!frame.is_live(static_cast<int>(r))) continue;
    if (indices) {
      regs[r] = c.b.CreateAnd(items[r].position, c.i32(absent_bit - 1));
      continue;
    }
    llvm::Value* v = from_order_key(c.elements, items[r].key, t, descending);
    if (has_position) {
      llvm::Value* absent = c.b.CreateICmpSLT(items[r].position, c.i32(0));
      v = c.b.CreateSelect(absent, llvm::Constant::getNullValue(v->getType()), v);
    }
    regs[r] = v;
  }
  define(op.results[0], l, regs);
}

}  // namespace tileweave::codegen
