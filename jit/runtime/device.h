// Device: where kernels run and tensors live. A cheap handle; the state behind it lives as long as the process.
// First object of a user's host code; streams, tensors and launches hang from it.
#pragma once

#include <cstdint>
#include <string>

#include "tileweave/jit/base/place.h"

namespace tileweave {

namespace runtime {
class DeviceState;
}
class Stream;

// interpret and simt run on the host: the interpreter that defines the language, and the GPU lowering emulated.
enum class DeviceKind : std::uint8_t { cpu, cuda, interpret, simt };

// What is known of a device. 0: not known or of no meaning there.
struct DeviceFacts {
  std::int64_t memory_bytes = 0;
  int units = 0;                             // cores, or streaming multiprocessors
  int vector_bits = 0;                       // CPU: the widest vector
  int compute_major = 0, compute_minor = 0;  // CUDA
  int driver_version = 0;                    // CUDA: 12040 is 12.4
  int max_threads_per_block = 0;
  int warp_size = 0;
  std::int64_t smem_per_block_bytes = 0;  // the most a block can ask for
  std::int64_t l2_bytes = 0;
  std::int64_t max_grid_x = 0, max_grid_y = 0;
  bool stream_ordered_pool = false;
};

class Device {
 public:
  // What TILEWEAVE_DEVICE names, else the first CUDA device where there is a usable one, else the CPU.
  static Device best(const Place& place = std::source_location::current());
  static Device cpu();
  // Errors: LaunchError that says why there is no such device (no driver, driver too old, index out of range).
  static Device cuda(int index = 0, const Place& place = std::source_location::current());
  static Device interpret();
  // The emulator of the GPU lowering for a target ("sm_80", "sm_86", "sm_89", "sm_90a").
  static Device simt(const std::string& target = "sm_90a", const Place& place = std::source_location::current());
  // CUDA devices of the driver (index 0 to n-1); 0 where there is no usable driver. Never throws.
  static int count_cuda() noexcept;
  // Why count_cuda() is 0, in a sentence; empty where it is not.
  static std::string why_no_cuda();

  DeviceKind kind() const;
  int index() const;                // among the CUDA devices; 0 for the others
  const std::string& name() const;  // "NVIDIA H200", "AMD EPYC", "interpreter", "simt sm_90a"
  // What code is made for, whole, as it goes into the cache key.
  //   CPU:  "x86-64:<cpu>+feature+feature...", LLVM's names, the host's features sorted; every feature that <cpu>
  //         stands for has been seen on the host, so naming it to LLVM is safe.
  //   CUDA: "sm_80", "sm_90a"... as the hardware says; simt: "simt:sm_90a"; interpret: "interpret".
  const std::string& target() const;
  const DeviceFacts& facts() const;
  // Whether kernels here read host memory (every kind but CUDA).
  bool is_host() const { return kind() != DeviceKind::cuda; }

  // The device's default stream, where library ops run.
  Stream stream() const;
  // Waits for everything queued on the device by this process. Errors: LaunchError with the kernels that may be at
  // fault.
  void synchronize(const Place& place = std::source_location::current()) const;
  // Gives memory that the pool keeps back to the system.
  void trim_pool() const;

  runtime::DeviceState& state() const { return *state_; }
  explicit Device(runtime::DeviceState& state) : state_(&state) {}
  friend bool operator==(const Device&, const Device&) = default;

 private:
  runtime::DeviceState* state_;
};

}  // namespace tileweave
