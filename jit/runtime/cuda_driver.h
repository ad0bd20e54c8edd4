// The CUDA driver, found at run time: our own short declarations, one table of function pointers, one form of error.
// The only place that knows libcuda's names; the cuda_*.cpp files call through driver().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tileweave/jit/base/place.h"

namespace tileweave::runtime::cuda {

using Result = int;
using DevicePointer = std::uint64_t;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using MemoryPool = struct PoolTag*;

// Results with a meaning for us (CUresult).
enum : Result {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  invalid_context = 201,
  invalid_handle = 400,
  not_ready = 600,
  illegal_address = 700,
  launch_timeout = 702,
  context_is_destroyed = 709,
  assert_failed = 710,
  hardware_stack_error = 714,
  launch_failed = 719,
};

// CUdevice_attribute.
enum Attribute : int {
  max_threads_per_block = 1,
  warp_size = 10,
  multiprocessor_count = 16,
  max_grid_dim_x = 5,
  max_grid_dim_y = 6,
  l2_cache_bytes = 38,
  compute_major = 75,
  compute_minor = 76,
  max_smem_per_block_optin = 97,
  memory_pools_supported = 115,
};

inline constexpr unsigned stream_non_blocking = 1, event_default = 0, event_disable_timing = 2;
inline constexpr unsigned mem_attach_global = 1, mem_host_portable = 1, mem_host_device_map = 2;
inline constexpr int function_smem_bytes = 1, function_registers = 4, function_max_dynamic_smem_bytes = 8;
inline constexpr int function_non_portable_cluster = 14;
inline constexpr int capture_relaxed = 2;
inline constexpr int pool_release_threshold = 4;
inline constexpr int jit_error_log = 5, jit_error_log_bytes = 6;
inline void* const launch_end = nullptr;
inline void* const launch_buffer_pointer = reinterpret_cast<void*>(1);
inline void* const launch_buffer_bytes = reinterpret_cast<void*>(2);

// CUlaunchAttribute: an identifier and a 64-byte value.
struct LaunchAttribute {
  int id;
  int padding;
  union {
    unsigned dimensions[3];
    int flag;
    char bytes[64];
  } value;
};
inline constexpr int attribute_cluster = 4, attribute_programmatic_serialization = 6;
static_assert(sizeof(LaunchAttribute) == 72);

// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3], block[3], smem_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// CUmemPoolProps.
struct PoolProperties {
  int allocation_type = 1;  // pinned, that is: device memory
  int handle_types = 0;
  int location_type = 1;  // device
  int location_id = 0;
  void* security_attributes = nullptr;
  std::size_t max_bytes = 0;
  unsigned char reserved[56] = {};
};
static_assert(sizeof(PoolProperties) == 88);

// CUtensorMap.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

// CUDA_MEMCPY2D.
enum MemoryType : int { host_memory = 1, device_memory = 2, unified_memory = 4 };
struct Copy2D {
  std::size_t source_x_bytes = 0, source_y = 0;
  int source_type = unified_memory;
  const void* source_host = nullptr;
  DevicePointer source_device = 0;
  void* source_array = nullptr;
  std::size_t source_pitch = 0;
  std::size_t target_x_bytes = 0, target_y = 0;
  int target_type = unified_memory;
  void* target_host = nullptr;
  DevicePointer target_device = 0;
  void* target_array = nullptr;
  std::size_t target_pitch = 0;
  std::size_t width_bytes = 0, height = 0;
};
static_assert(sizeof(Copy2D) == 128);

struct Driver {
#define TILEWEAVE_CUDA(member, symbol, since, need, parameters) Result(*member) parameters = nullptr;
#include "tileweave/jit/runtime/cuda_driver.def"
  int version = 0;  // 12040 is 12.4

  bool has_pools() const {
    return mem_pool_create != nullptr && mem_pool_set_attribute != nullptr && mem_pool_trim_to != nullptr &&
           mem_alloc_from_pool_async != nullptr && mem_free_async != nullptr;
  }
};

// The driver, loaded and initialised at the first call; null where there is none that we can use. Never throws.
const Driver* driver() noexcept;
// Why driver() is null, in a sentence; empty where it is not.
const std::string& why_no_driver();
// driver(), or a LaunchError that says why not.
const Driver& require_driver(const Place& place);

// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)".
std::string describe(Result r);
// Whether the result means that the context is lost: only a new process can use the device again.
bool is_fatal(Result r);
// Whether the driver has gone already (the process is ending): nothing to report, nothing to free.
bool is_shutting_down(Result r);

// Throws a LaunchError where `r` is not success. `call` is the member's name as the table has it; `doing` what was
// being done ("allocating 64 bytes"). `suspects`: the kernels that may be at fault, as LaunchRing::text() gives them.
void check(Result r, const char* call, const std::string& doing, const Place& place, const std::string& suspects = {});

}  // namespace tileweave::runtime::cuda
