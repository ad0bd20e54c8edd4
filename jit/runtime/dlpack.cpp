// DLPack structs from tensors and tensors from DLPack structs.
// At the edge of the flow, over AnyTensor.
#include "tileweave/jit/runtime/dlpack.h"

#include <memory>
#include <string>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/tensor_math.h"

namespace tileweave::runtime {
namespace {

dlpack::ElementType element_type_of(Dtype t) {
  const auto bits = static_cast<std::uint8_t>(dtype_info(t).bits);
  if (t == Dtype::bf16) return {dlpack::bfloat, bits, 1};
  if (t == Dtype::f8e4m3) return {dlpack::float8_e4m3fn, bits, 1};
  if (t == Dtype::f8e5m2) return {dlpack::float8_e5m2, bits, 1};
  if (is_bool(t)) return {dlpack::boolean, bits, 1};
  return {static_cast<std::uint8_t>(is_float(t)    ? dlpack::floating
                                    : is_signed(t) ? dlpack::signed_int
                                                   : dlpack::unsigned_int),
          bits, 1};
}

Dtype dtype_from(const dlpack::ElementType& e, const Place& place) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto t = static_cast<Dtype>(i);
    const dlpack::ElementType known = element_type_of(t);
    if (e.code == known.code && e.bits == known.bits && e.lanes == 1) return t;
  }
  throw_launch_error(place, "from_dlpack: element type code " + std::to_string(e.code) + " with " +
                                std::to_string(e.bits) + " bits and " + std::to_string(e.lanes) +
                                " lanes is not one of ours");
}

dlpack::DeviceId device_id_of(const AnyTensor& t) {
  if (t.device().is_host()) return {dlpack::cpu, 0};
  if (t.memory() == Memory::pinned) return {dlpack::cuda_host, t.device().index()};
  if (t.memory() == Memory::managed) return {dlpack::cuda_managed, t.device().index()};
  return {dlpack::cuda, t.device().index()};
}

struct Home {
  Device device;
  Memory memory;
};
Home home_of(const dlpack::DeviceId& id, const Place& place) {
  switch (id.type) {
    case dlpack::cpu:
      return {Device::cpu(), Memory::device};
    case dlpack::cuda:
      return {Device::cuda(id.index, place), Memory::device};
    case dlpack::cuda_host:
      return {Device::cuda(id.index, place), Memory::pinned};
    case dlpack::cuda_managed:
      return {Device::cuda(id.index, place), Memory::managed};
    default:
      throw_launch_error(place, "from_dlpack: device type " + std::to_string(id.type) + " is not one of ours");
  }
}

// What a struct of ours needs as long as it lives.
struct Exported {
  AnyTensor tensor;
  std::array<std::int64_t, max_rank> extents{}, strides{};
};

// Makes the consumer's stream, or the host, come after the work that fills the tensor.
void order_after_producer(const AnyTensor& t, const Stream* consumer, const Place& place) {
  if (consumer != nullptr) {
    t.use_on(consumer->state(), place);
  } else {
    t.storage()->wait_for_host(place);
  }
}

dlpack::Tensor struct_of(Exported& e) {
  const AnyTensor& t = e.tensor;
  for (int i = 0; i < t.rank(); ++i) {
    e.extents[i] = t.extent(i);
    e.strides[i] = t.stride(i);
  }
  return {t.data(), device_id_of(t), t.rank(), element_type_of(t.dtype()), e.extents.data(), e.strides.data(), 0};
}

template <class Managed>
Managed* exported(const AnyTensor& tensor, const Stream* consumer, const Place& place) {
  require_defined(tensor, "to_dlpack", place);
  order_after_producer(tensor, consumer, place);
  auto context = std::make_unique<Exported>();
  context->tensor = tensor;
  auto managed = std::make_unique<Managed>();
  managed->tensor = struct_of(*context);
  managed->manager_context = context.release();
  managed->deleter = [](Managed* m) {
    delete static_cast<Exported*>(m->manager_context);
    delete m;
  };
  return managed.release();
}

AnyTensor imported(const dlpack::Tensor& t, std::function<void()> release, const Place& place) {
  const Dtype dtype = dtype_from(t.dtype, place);
  if (t.ndim < 0 || t.ndim > max_rank || (t.ndim > 0 && t.shape == nullptr)) {
    throw_launch_error(place, "from_dlpack: " + std::to_string(t.ndim) + " axes; a tensor has at most 6");
  }
  const Dims extents(std::span<const std::int64_t>(t.shape, static_cast<std::size_t>(t.ndim)));
  check_extents(extents, place);
  const Dims strides = t.strides == nullptr
                           ? row_major_strides(extents)
                           : Dims(std::span<const std::int64_t>(t.strides, static_cast<std::size_t>(t.ndim)));
  const Home home = home_of(t.device, place);
  auto* first = static_cast<std::byte*>(t.data);
  if (first != nullptr) first += t.byte_offset;
  return AnyTensor::wrap(first, dtype, extents, strides, home.device, place, std::move(release), home.memory);
}

template <class Managed>
std::function<void()> deleter_of(Managed* managed) {
  // Shared, so that it runs once however often the function is copied, and also where the import fails.
  std::shared_ptr<Managed> owner(managed, [](Managed* m) {
    if (m->deleter != nullptr) m->deleter(m);
  });
  return [owner]() mutable { owner.reset(); };
}

template <class Managed>
void require_given(const Managed* managed, const Place& place) {
  if (managed == nullptr) throw_launch_error(place, "from_dlpack: the struct is null");
}

}  // namespace

dlpack::ManagedTensor* to_dlpack(const AnyTensor& tensor, const Stream* consumer, const Place& place) {
  return exported<dlpack::ManagedTensor>(tensor, consumer, place);
}

dlpack::VersionedManagedTensor* to_dlpack_versioned(const AnyTensor& tensor, const Stream* consumer,
                                                    const Place& place) {
  return exported<dlpack::VersionedManagedTensor>(tensor, consumer, place);
}

AnyTensor from_dlpack(dlpack::ManagedTensor* managed, const Place& place) {
  require_given(managed, place);
  return imported(managed->tensor, deleter_of(managed), place);
}

AnyTensor from_dlpack(dlpack::VersionedManagedTensor* managed, const Place& place) {
  require_given(managed, place);
  std::function<void()> release = deleter_of(managed);  // the deleter's place is the same in every version
  if (managed->version.major != dlpack::Version{}.major) {
    throw_launch_error(place, "from_dlpack: version " + std::to_string(managed->version.major) + "." +
                                  std::to_string(managed->version.minor) + " of DLPack; 1 is the one that is known");
  }
  return imported(managed->tensor, std::move(release), place);
}

}  // namespace tileweave::runtime
