// An operand of wgmma in shared memory, as a descriptor names it. Between a staged tile and gpu_lower_wgmma.cpp.
#pragma once

#include <optional>

#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/codegen/gpu_dot_plan.h"
#include "tileweave/jit/codegen/gpu_fragments.h"

namespace tileweave::codegen {

class WgmmaMatrix {
 public:
  // The operand with row (or column) axis `mn_axis` and inner axis `k_axis` of a tile of `axis_bits`. Nothing where no
  // descriptor has its order: rows that are not neighbours, 8-bit elements that are neighbours along m or n.
  static std::optional<WgmmaMatrix> describe(const MemoryOperand& memory, const std::vector<int>& axis_bits,
                                             int mn_axis, int k_axis);
  bool is_transposed() const { return is_transposed_; }

  // Emits what all descriptors share: `group_bases` are flat indices by the bits of the warp group's number.
  void begin(GpuContext& c, const std::vector<std::uint64_t>& group_bases);
  // The descriptor of the block that begins at a flat index of the operand.
  llvm::Value* at(GpuContext& c, std::uint64_t flat) const;

 private:
  MemoryOperand memory_;
  bool is_transposed_ = false;
  std::uint64_t fields_ = 0;
  llvm::Value* start_ = nullptr;  // i64
};

}  // namespace tileweave::codegen
