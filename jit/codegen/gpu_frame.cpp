// Coordinates of registers, from the bases of a layout.
// Used by everything in the GPU lowering that looks at where an element is.
#include "tileweave/jit/codegen/gpu_frame.h"

#include <llvm/IR/Constants.h>

namespace tileweave::codegen {

using ir::Place4;

TileFrame::TileFrame(GpuContext& c, const ir::Layout& layout, ir::TileShape shape, Window window)
    : c_(c),
      layout_(layout),
      shape_(std::move(shape)),
      window_(window),
      register_bits_(window.chunk == nullptr ? layout.bits(Place4::reg) : window.bits) {}

std::vector<std::uint64_t> TileFrame::axis_bases(Place4 p, int axis) const {
  std::vector<std::uint64_t> out;
  for (std::uint64_t base : layout_.bases(p)) out.push_back(layout_.coordinate(base, axis));
  return out;
}

bool TileFrame::is_live(int r) const {
  // With a chunk that is known only at run time, what exists is decided there.
  return window_.chunk != nullptr || shape_.is_live(layout_, r);
}

std::int64_t TileFrame::register_coordinate(int axis, int r) const {
  return static_cast<std::int64_t>(layout_.coordinate(layout_.apply(static_cast<std::uint64_t>(r)), axis));
}

llvm::Value* TileFrame::thread_coordinate(int axis) {
  std::vector<std::uint64_t> bases = axis_bases(Place4::lane, axis);
  bases.resize(5, 0);
  const std::vector<std::uint64_t> warps = axis_bases(Place4::warp, axis);
  bases.insert(bases.end(), warps.begin(), warps.end());
  while (!bases.empty() && bases.back() == 0) bases.pop_back();
  // Trailing zeros are put back so that a mask is emitted exactly where the thread id has more bits than are used.
  bases.resize(static_cast<std::size_t>(5 + c_.warp_bits), 0);
  llvm::Value* v = c_.thread_linear(bases);
  if (window_.chunk == nullptr) return v;
  std::vector<std::uint64_t> high = axis_bases(Place4::reg, axis);
  high.erase(high.begin(), high.begin() + register_bits_);
  llvm::Value* chunk = c_.linear(c_.b, window_.chunk, high);
  std::uint64_t of_thread = 0, of_chunk = 0;
  for (std::uint64_t base : bases) of_thread |= base;
  for (std::uint64_t base : high) of_chunk |= base;
  return (of_thread & of_chunk) == 0 ? c_.b.CreateAdd(v, chunk, "", true, true) : c_.b.CreateXor(v, chunk);
}

bool TileFrame::adds_up(int axis) const {
  std::uint64_t of_register = 0, of_others = 0;
  const std::vector<std::uint64_t> regs = axis_bases(Place4::reg, axis);
  for (std::size_t i = 0; i < regs.size(); ++i) {
    (static_cast<int>(i) < register_bits_ ? of_register : of_others) |= regs[i];
  }
  for (Place4 p : {Place4::lane, Place4::warp}) {
    for (std::uint64_t base : axis_bases(p, axis)) of_others |= base;
  }
  return (of_register & of_others) == 0;
}

llvm::Value* TileFrame::coordinate(int axis, int r) {
  llvm::Value* thread = thread_coordinate(axis);
  llvm::Value* own = c_.i32(register_coordinate(axis, r));
  return adds_up(axis) ? c_.b.CreateAdd(thread, own, "", true, true) : c_.b.CreateXor(thread, own);
}

llvm::Value* TileFrame::exists(int r) {
  llvm::Value* all = nullptr;
  for (int a = 0; a < rank(); ++a) {
    const std::int64_t extent = shape_.extents[static_cast<std::size_t>(a)];
    if (extent == std::int64_t{1} << layout_.axis_bits(a)) continue;
    // The largest coordinate that any thread can make with this register.
    std::uint64_t others = 0;
    for (Place4 p : {Place4::lane, Place4::warp}) {
      for (std::uint64_t base : axis_bases(p, a)) others |= base;
    }
    if (window_.chunk != nullptr) {
      for (std::uint64_t base : axis_bases(Place4::reg, a)) others |= base;
    }
    if (static_cast<std::int64_t>(static_cast<std::uint64_t>(register_coordinate(a, r)) | others) < extent) continue;
    llvm::Value* here = c_.b.CreateICmpULT(coordinate(a, r), c_.i32(extent));
    all = all == nullptr ? here : c_.b.CreateAnd(all, here);
  }
  return all;
}

}  // namespace tileweave::codegen
