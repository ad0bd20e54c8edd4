// DLPack in and out: tensors shared with PyTorch, CuPy, JAX, NumPy without a copy. Our own declaration of its C structs
// (ABI of DLPack 0.8 and 1.0, https://dmlc.github.io/dlpack/latest/c_api.html).
// At the edge of the flow, over AnyTensor.
#pragma once

#include <cstdint>

#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::runtime::dlpack {

enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum TypeCode : std::uint8_t {
  signed_int = 0,
  unsigned_int = 1,
  floating = 2,
  bfloat = 4,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12
};

struct DeviceId {
  std::int32_t type = cpu;
  std::int32_t index = 0;
};
struct ElementType {
  std::uint8_t code = 0, bits = 0;
  std::uint16_t lanes = 1;
};
struct Tensor {  // DLTensor
  void* data = nullptr;
  DeviceId device;
  std::int32_t ndim = 0;
  ElementType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements; null: row-major
  std::uint64_t byte_offset = 0;
};
struct ManagedTensor {  // DLManagedTensor, before 1.0
  Tensor tensor;
  void* manager_context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};
struct Version {
  std::uint32_t major = 1, minor = 0;
};
inline constexpr std::uint64_t flag_read_only = 1, flag_is_copied = 2;
struct VersionedManagedTensor {  // DLManagedTensorVersioned, from 1.0
  Version version;
  void* manager_context = nullptr;
  void (*deleter)(VersionedManagedTensor*) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};

}  // namespace tileweave::runtime::dlpack

namespace tileweave::runtime {

// A struct that shares the tensor's memory until its deleter is called. The consumer must order its own work after
// `stream`'s: as in the Python protocol, say which stream will read it and it is made to wait (nullptr: the host waits
// until the tensor is ready).
dlpack::ManagedTensor* to_dlpack(const AnyTensor& tensor, const Stream* consumer = nullptr,
                                 const Place& place = std::source_location::current());
dlpack::VersionedManagedTensor* to_dlpack_versioned(const AnyTensor& tensor, const Stream* consumer = nullptr,
                                                    const Place& place = std::source_location::current());

// Takes the struct over: its deleter runs when the last handle goes, also where this call refuses it with a LaunchError
// (unknown device, element type, more than six axes, a newer major version).
AnyTensor from_dlpack(dlpack::ManagedTensor* managed, const Place& place = std::source_location::current());
AnyTensor from_dlpack(dlpack::VersionedManagedTensor* managed, const Place& place = std::source_location::current());

}  // namespace tileweave::runtime
