// Lowering of slice, cat, flip, gather and histogram. Where the layout allows, registers only get new names or lanes
// change places by shuffles; the general way is an image of the tile in shared memory, read at other coordinates.
#include <llvm/IR/Constants.h>

#include "tileweave/jit/codegen/gpu_axis.h"
#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::AttrKey;
using ir::Layout;
using ir::Op;
using ir::Place4;
using ir::Value;

namespace {

int axis_of(const Op& op) { return static_cast<int>(op.attrs.get_int(AttrKey::axis)); }

std::int64_t bytes_of(llvm::Type* t) {
  return t->isIntegerTy(1) ? 1 : static_cast<std::int64_t>(t->getPrimitiveSizeInBits() / 8);
}

// A layout without the highest bit along an axis, and the register bit that it was.
struct WithoutTop {
  Layout layout;
  int reg = 0;
};

// Nothing where that bit is not a register's alone.
std::optional<WithoutTop> without_top(const Layout& l, int axis) {
  const int at = l.axis_shift(axis) + l.axis_bits(axis) - 1;
  const std::uint64_t top = std::uint64_t{1} << at;
  int reg = -1;
  for (Place4 p : {Place4::reg, Place4::lane, Place4::warp}) {
    for (std::size_t i = 0; i < l.bases(p).size(); ++i) {
      if ((l.bases(p)[i] & top) == 0) continue;
      if (p != Place4::reg || l.bases(p)[i] != top || reg >= 0) return std::nullopt;
      reg = static_cast<int>(i);
    }
  }
  if (reg < 0) return std::nullopt;
  std::vector<int> bits = l.shape_bits();
  --bits[static_cast<std::size_t>(axis)];
  Layout rest(bits);
  for (Place4 p : {Place4::reg, Place4::lane, Place4::warp, Place4::block}) {
    for (std::size_t i = 0; i < l.bases(p).size(); ++i) {
      if (p == Place4::reg && static_cast<int>(i) == reg) continue;
      const std::uint64_t base = l.bases(p)[i];
      rest.add_base(p, (base & (top - 1)) | (base >> 1 & ~(top - 1)));
    }
  }
  return WithoutTop{rest, reg};
}

// r without its bit i.
int squeeze(int r, int i) { return (r & ((1 << i) - 1)) | (r >> (i + 1) << i); }
// r with a bit put in at i.
int spread(int r, int i, int bit) { return (r & ((1 << i) - 1)) | bit << i | (r >> i << (i + 1)); }

}  // namespace

// --- images of tiles in shared memory

void GpuLowering::write_image(const Value* v, const TileImage& image, const std::vector<std::int64_t>& start) {
  const Layout& l = layout_of(v);
  const Regs& held = get(v, l);
  TileFrame frame(c, l, shape_of(v->type));
  llvm::Value* first = c.is_first(l.free_mask(Place4::lane), l.free_mask(Place4::warp));
  for (int r = 0; r < frame.registers(); ++r) {
    if (!frame.is_live(r)) continue;
    std::vector<llvm::Value*> at;
    for (int a = 0; a < frame.rank(); ++a) {
      at.push_back(c.b.CreateAdd(frame.coordinate(a, r), c.i32(start[static_cast<std::size_t>(a)])));
    }
    shared_store(image_offset(image, at), held[static_cast<std::size_t>(r)], c.both(first, frame.exists(r)));
    c.split_long_block();
  }
}

GpuLowering::TileImage GpuLowering::new_image(const ir::Type& t, llvm::Type* type) {
  return {scratch_.allocate(bytes_of(type) * t.elements()), bytes_of(type), t.shape()};
}

llvm::Value* GpuLowering::image_offset(const TileImage& image, const std::vector<llvm::Value*>& at) {
  llvm::Value* index = c.i32(0);
  for (std::size_t a = 0; a < at.size(); ++a) {
    index = c.b.CreateAdd(c.b.CreateMul(index, c.i32(image.extents[a])), at[a]);
  }
  return c.b.CreateAdd(c.b.CreateMul(index, c.i32(image.bytes)), c.i32(image.base));
}

template <class From>
Regs GpuLowering::read_image(const Value* result, const TileImage& image, llvm::Type* type, From from) {
  const Layout& l = layout_of(result);
  TileFrame frame(c, l, shape_of(result->type));
  Regs regs(static_cast<std::size_t>(frame.registers()), nullptr);
  for (int r = 0; r < frame.registers(); ++r) {
    if (!frame.is_live(r)) continue;
    std::vector<llvm::Value*> at;
    for (int a = 0; a < frame.rank(); ++a) at.push_back(frame.coordinate(a, r));
    llvm::Value* reads = frame.exists(r);
    llvm::Value* defined = from(r, at);  // null: always
    reads = c.both(reads, defined);
    // What is not read goes to the image's first element, which has been written.
    llvm::Value* offset = image_offset(image, at);
    if (reads != nullptr) offset = c.b.CreateSelect(reads, offset, c.i32(image.base));
    llvm::Value* x = shared_load(offset, type);
    regs[static_cast<std::size_t>(r)] =
        defined == nullptr ? x : c.b.CreateSelect(defined, x, llvm::Constant::getNullValue(type));
    c.split_long_block();
  }
  return regs;
}

// --- slice and cat

// Along each axis that is cut the block is one of 2^k equal parts, and which one is a matter of registers.
bool GpuLowering::slice_registers(const Op& op) {
  const Value *x = op.operands[0], *result = op.results[0];
  const auto& starts = op.attrs.get_list(AttrKey::starts);
  Layout l = layout_of(x);
  std::vector<std::pair<int, int>> chosen;  // register bits taken out, in order, and their values
  for (int a = 0; a < x->type.rank; ++a) {
    const auto k = static_cast<std::size_t>(a);
    const int bits = ir::bits_for(result->type.extents[k]);
    if (starts[k] % (std::int64_t{1} << bits) != 0) return false;
    while (l.axis_bits(a) > bits) {
      const int value = static_cast<int>(starts[k] >> (l.axis_bits(a) - 1) & 1);
      const auto rest = without_top(l, a);
      if (!rest) return false;
      chosen.emplace_back(rest->reg, value);
      l = rest->layout;
    }
  }
  const Regs held = get(x);
  Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
  const ir::TileShape shape = shape_of(result->type);
  for (int r = 0; r < l.registers(); ++r) {
    if (!shape.is_live(l, r)) continue;
    int source = r;
    for (std::size_t i = chosen.size(); i-- > 0;) source = spread(source, chosen[i].first, chosen[i].second);
    regs[static_cast<std::size_t>(r)] = held[static_cast<std::size_t>(source)];
  }
  define(result, l, regs);
  return true;
}

void GpuLowering::lower_slice(const Op& op) {
  if (slice_registers(op)) return;
  const Value* x = op.operands[0];
  get(x);
  c.enter_op(op);
  const TileImage image = new_image(x->type, register_type(x));
  write_image(x, image, std::vector<std::int64_t>(image.extents.size(), 0));
  scratch_.barrier();
  const auto& starts = op.attrs.get_list(AttrKey::starts);
  set(op.results[0], read_image(op.results[0], image, register_type(x), [&](int, std::vector<llvm::Value*>& at) {
        for (std::size_t a = 0; a < at.size(); ++a) at[a] = c.b.CreateAdd(at[a], c.i32(starts[a]));
        return static_cast<llvm::Value*>(nullptr);
      }));
}

// Two equal powers of two, told apart by a register bit of the result's layout.
bool GpuLowering::cat_registers(const Op& op) {
  const int axis = axis_of(op);
  const auto k = static_cast<std::size_t>(axis);
  const std::int64_t n = op.operands[0]->type.extents[k];
  if (op.operands[1]->type.extents[k] != n || (n & (n - 1)) != 0) return false;
  const Layout& l = layout_of(op.results[0]);
  const auto half = without_top(l, axis);
  if (!half) return false;
  std::array<Regs, 2> sides;
  for (std::size_t side = 0; side < 2; ++side) {
    const Value* x = op.operands[side];
    get(x);
    sides[side] = get(x, half->layout);
  }
  Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
  for (int r = 0; r < l.registers(); ++r) {
    const auto side = static_cast<std::size_t>(r >> half->reg & 1);
    regs[static_cast<std::size_t>(r)] = sides[side][static_cast<std::size_t>(squeeze(r, half->reg))];
  }
  set(op.results[0], std::move(regs));
  return true;
}

void GpuLowering::lower_cat(const Op& op) {
  if (cat_registers(op)) return;
  const Value* result = op.results[0];
  for (const Value* v : op.operands) get(v);
  c.enter_op(op);
  const TileImage image = new_image(result->type, register_type(result));
  std::vector<std::int64_t> start(image.extents.size(), 0);
  for (const Value* v : op.operands) {
    write_image(v, image, start);
    start[static_cast<std::size_t>(axis_of(op))] += v->type.extents[static_cast<std::size_t>(axis_of(op))];
  }
  scratch_.barrier();
  set(result, read_image(result, image, register_type(result),
                         [](int, std::vector<llvm::Value*>&) { return static_cast<llvm::Value*>(nullptr); }));
}

// --- flip

void GpuLowering::lower_flip(const Op& op) {
  const Value *x = op.operands[0], *result = op.results[0];
  const int axis = axis_of(op);
  const std::int64_t n = x->type.extents[static_cast<std::size_t>(axis)];
  const Layout& l = layout_of(x);
  if (std::int64_t{1} << l.axis_bits(axis) == n && is_movable(l)) {
    // n - 1 - k turns every bit of k.
    const PlaceMove move = place_move(l, l.axis_mask(axis));
    if (move.warp == 0) {
      const Regs held = get(x);
      c.enter_op(op);
      Regs regs(held.size(), nullptr);
      for (std::size_t r = 0; r < regs.size(); ++r) {
        llvm::Value* v = held[r ^ move.reg];
        if (v == nullptr) continue;
        regs[r] =
            move.lane == 0 ? v : shuffle(v, PrimitiveId::shuffle_bfly, c.i32(static_cast<std::int64_t>(move.lane)));
        c.split_long_block();
      }
      return define(result, l, regs);
    }
  }
  get(x);
  c.enter_op(op);
  const TileImage image = new_image(x->type, register_type(x));
  write_image(x, image, std::vector<std::int64_t>(image.extents.size(), 0));
  scratch_.barrier();
  set(result, read_image(result, image, register_type(x), [&](int, std::vector<llvm::Value*>& at) {
        auto& k = at[static_cast<std::size_t>(axis)];
        k = c.b.CreateSub(c.i32(n - 1), k);
        return static_cast<llvm::Value*>(nullptr);
      }));
}

// --- gather

void GpuLowering::lower_gather(const Op& op) {
  const Value *x = op.operands[0], *index = op.operands[1], *result = op.results[0];
  const auto axis = static_cast<std::size_t>(axis_of(op));
  get(x);
  const Regs picks = get(index, layout_of(result));
  c.enter_op(op);
  const TileImage image = new_image(x->type, register_type(x));
  write_image(x, image, std::vector<std::int64_t>(image.extents.size(), 0));
  scratch_.barrier();
  set(result, read_image(result, image, register_type(x), [&](int r, std::vector<llvm::Value*>& at) {
        llvm::Value* k = c.elements.convert(picks[static_cast<std::size_t>(r)], index->type.elem, Dtype::i64);
        at[axis] = c.b.CreateTrunc(k, c.b.getInt32Ty());
        // A negative one is past the end as an unsigned number.
        return c.b.CreateICmpULT(k, c.i64(image.extents[axis]));
      }));
}

// --- histogram: counters in shared memory. Additions of integers give the same in every order.

void GpuLowering::lower_histogram(const Op& op) {
  const Value *x = op.operands[0], *result = op.results[0];
  const Layout& l = layout_of(x);
  const Regs held = get(x);
  const Regs* mask = op.operands.size() == 2 ? &get(op.operands[1], l) : nullptr;
  c.enter_op(op);
  const TileImage counters = new_image(result->type, c.b.getInt32Ty());
  const std::int64_t bins = counters.extents[0], threads = 32 * c.warps;
  for (std::int64_t first = 0; first < bins; first += threads) {
    llvm::Value* bin = c.b.CreateAdd(c.thread(), c.i32(first));
    llvm::Value* exists = first + threads <= bins ? nullptr : c.b.CreateICmpULT(bin, c.i32(bins));
    shared_store(image_offset(counters, {bin}), c.i32(0), exists);
  }
  scratch_.barrier();
  TileFrame frame(c, l, shape_of(x->type));
  llvm::Value* once = c.is_first(l.free_mask(Place4::lane), l.free_mask(Place4::warp));
  for (int r = 0; r < frame.registers(); ++r) {
    if (!frame.is_live(r)) continue;
    llvm::Value* k = c.elements.convert(held[static_cast<std::size_t>(r)], x->type.elem, Dtype::i64);
    llvm::Value* counted = c.both(c.b.CreateICmpULT(k, c.i64(bins)), c.both(once, counts(frame, r, mask)));
    llvm::Value* bin = c.b.CreateSelect(counted, c.b.CreateTrunc(k, c.b.getInt32Ty()), c.i32(0));
    c.call(PrimitiveId::shared_atomic_add, Element::i32, {image_offset(counters, {bin}), c.i32(1), counted, c.site()});
    c.split_long_block();
  }
  scratch_.barrier();
  set(result, read_image(result, counters, c.b.getInt32Ty(),
                         [](int, std::vector<llvm::Value*>&) { return static_cast<llvm::Value*>(nullptr); }));
}

}  // namespace tileweave::codegen
