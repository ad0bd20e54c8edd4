// A kernel of the CPU backend: a loaded object and its entry.
// Made by the host devices' load(); launched by dsl.
#pragma once

#include <memory>
#include <string>

#include "tileweave/jit/runtime/abi.h"
#include "tileweave/jit/runtime/elf_loader.h"
#include "tileweave/jit/runtime/launch.h"

namespace tileweave::runtime {

class CpuKernel final : public LoadedKernel {
 public:
  // Loads the object and finds `binary.entry` in it.
  static std::shared_ptr<const LoadedKernel> load(const Binary& binary, const std::string& name, const Place& place);
  // For kernels that are not objects (tests). `entry` must outlive the kernel.
  CpuKernel(const std::string& name, CpuEntry entry, std::int64_t scratch_bytes);

  void launch(StreamState& stream, const std::int64_t grid[3], const std::uint64_t* slots, int n,
              const Place& place) const override;

 private:
  std::unique_ptr<LoadedObject> object_;
  CpuEntry entry_;
  std::int64_t scratch_bytes_;
  bool serial_ = false;  // one program after another on the calling thread: for debuggers
};

}  // namespace tileweave::runtime
