// A tile in shared memory as tensor cores want it: 128-byte lines, 16-byte chunks swizzled by the line, and the
// addresses of a layout's registers in it. Between staged or copied operands and the fragments read from them.
#pragma once

#include <map>
#include <vector>

#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/ir/layout.h"

namespace tileweave::codegen {

// Where each element of a padded tile stands. Elements along `unit_axis` are neighbours; a row of more than 128 bytes
// is cut into panels of 128 bytes, each panel whole before the next. The swizzle is TMA's and wgmma's: bits 4.. of the
// byte offset are xor'ed with bits 7.., as many as a row of 32, 64 or 128 bytes has chunks to move.
struct SharedTile {
  int unit_axis = 0;
  int element_bytes = 2;
  std::int64_t bytes = 0;
  ir::BitMatrix offset_of_flat;  // in bytes

  std::uint64_t offset(std::uint64_t flat) const { return offset_of_flat.apply(flat); }
};
inline constexpr std::int64_t tile_alignment = 1024;  // of the widest swizzle's pattern
SharedTile swizzled_tile(const std::vector<int>& axis_bits, int unit_axis, int element_bytes);

// base + (the thread's part xor a register's part), where only the bits that both have need the xor.
class SharedAddress {
 public:
  // `thread_bases`: byte offsets by the bits of the thread's number.
  SharedAddress(GpuContext& c, llvm::Value* base, const std::vector<std::uint64_t>& thread_bases);
  llvm::Value* at(std::uint64_t own);

 private:
  GpuContext& c_;
  llvm::Value *base_, *thread_;
  std::uint64_t of_thread_ = 0;
  std::map<std::uint64_t, llvm::Value*> starts_;
};

}  // namespace tileweave::codegen
