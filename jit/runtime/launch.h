// A kernel that is ready to run on one device, and the one way in: load_kernel.
// Between the cache's Binary and the launch; the interpreter and the SIMT emulator give LoadedKernels of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tileweave/jit/base/place.h"
#include "tileweave/jit/runtime/abi.h"

namespace tileweave {
class Device;
struct Binary;  // jit/base/binary.h
}  // namespace tileweave

namespace tileweave::runtime {

class StreamState;

class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  // Runs every program of the grid with the `n` argument slots (abi.h). The caller has checked the arguments and made
  // the tensors ready (AnyTensor::use_on). CPU: returns when the kernel has run. CUDA: one driver call; no allocation,
  // no lock, no synchronisation, so it may be captured. Any thread. Errors: LaunchError.
  virtual void launch(StreamState& stream, const std::int64_t grid[3], const std::uint64_t* slots, int n,
                      const Place& place = {}) const = 0;

  const char* name() const { return name_; }

 protected:
  // `name` is what errors call the kernel.
  explicit LoadedKernel(const std::string& name);
  // At most max_slots, on every backend.
  void check_slot_count(int n, const Place& place) const {
    if (n > max_slots) [[unlikely]] {
      refuse_slot_count(n, place);
    }
  }

 private:
  [[noreturn]] void refuse_slot_count(int n, const Place& place) const;

  const char* name_;  // interned: outlives the kernel, so that a later fault can name it
};

// Loads the binary for the device. A binary whose `meta` has the word "pdl=1" may start while the kernel before it in
// the stream drains. Dropping the result is safe while launches of it are in flight. Errors: LaunchError (the binary is
// not for this device, damaged, or the driver refuses it).
std::shared_ptr<const LoadedKernel> load_kernel(const Device& device, const Binary& binary, const std::string& name,
                                                const Place& place = {});

// The same text at one address for ever.
const char* intern(const std::string& text);

}  // namespace tileweave::runtime
