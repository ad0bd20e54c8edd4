// A tile seen by one thread: its registers' coordinates as LLVM values, and which of them exist.
// Between a linear layout and the lowering of memory accesses, masks and reductions.
#pragma once

#include <vector>

#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/ir/layout.h"

namespace tileweave::codegen {

// The registers that code is emitted for at once: all of them, or 2^bits of them for each value of `chunk`, the loop
// variable over the others.
struct Window {
  llvm::Value* chunk = nullptr;  // i32; null: the window is the whole layout
  int bits = 0;
};

class TileFrame {
 public:
  TileFrame(GpuContext& c, const ir::Layout& layout, ir::TileShape shape, Window window = {});

  const ir::Layout& layout() const { return layout_; }
  const ir::TileShape& shape() const { return shape_; }
  int rank() const { return layout_.rank(); }
  // Registers of the window. All of what follows counts them from 0.
  int registers() const { return 1 << register_bits_; }
  // False where the register holds no element in any thread: no code for it.
  bool is_live(int r) const;

  // coordinate(axis, r) == thread_coordinate(axis) + register_coordinate(axis, r) where adds_up(axis).
  llvm::Value* coordinate(int axis, int r);  // i32
  llvm::Value* thread_coordinate(int axis);  // i32; may be a constant
  std::int64_t register_coordinate(int axis, int r) const;
  bool adds_up(int axis) const;
  // True where the element exists; null where it does in every thread.
  llvm::Value* exists(int r);

 private:
  std::vector<std::uint64_t> axis_bases(ir::Place4 p, int axis) const;

  GpuContext& c_;
  ir::Layout layout_;
  ir::TileShape shape_;
  Window window_;
  int register_bits_;
};

}  // namespace tileweave::codegen
