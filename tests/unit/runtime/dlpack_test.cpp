// DLPack: structs out and in, lifetimes, layouts, and what is refused.
// Tests jit/runtime/dlpack.
#include "tileweave/jit/runtime/dlpack.h"

#include <doctest/doctest.h>

#include <cstddef>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/random.h"

namespace tileweave::runtime {
namespace {

// The ABI, from the published header: DLTensor is 48 bytes, DLManagedTensor 64, DLManagedTensorVersioned 80.
static_assert(sizeof(dlpack::Tensor) == 48 && offsetof(dlpack::Tensor, shape) == 24);
static_assert(sizeof(dlpack::ManagedTensor) == 64 && offsetof(dlpack::ManagedTensor, deleter) == 56);
static_assert(sizeof(dlpack::VersionedManagedTensor) == 80 && offsetof(dlpack::VersionedManagedTensor, flags) == 24);

TEST_CASE("a tensor goes out and comes back as the same memory") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto t = static_cast<Dtype>(i);
    const AnyTensor a = AnyTensor::zeros(Device::cpu(), t, {4, 6}).transpose().slice(0, 1, 5, 2).flip(1);
    const AnyTensor b = from_dlpack(to_dlpack(a)), c = from_dlpack(to_dlpack_versioned(a));
    for (const AnyTensor& back : {b, c}) {
      CHECK(is_same_view(a, back));
      CHECK(back.dtype() == t);
      CHECK(back.strides() == a.strides());
    }
  }
}

TEST_CASE("the memory lives as long as somebody holds it") {
  AnyTensor a = random_normal(Device::cpu(), Dtype::f32, {100}, 1);
  const std::vector<std::byte> values = a.to_host();
  dlpack::ManagedTensor* m = to_dlpack(a);
  CHECK(m->tensor.device.type == dlpack::cpu);
  CHECK(m->tensor.dtype.code == dlpack::floating);
  CHECK(m->tensor.dtype.bits == 32);
  a = AnyTensor();
  AnyTensor b = from_dlpack(m);
  const AnyTensor view = b.slice(0, 0, 100);
  b = AnyTensor();
  CHECK(view.to_host() == values);
}

TEST_CASE("a foreign struct: no strides, an offset, its deleter once") {
  static int deleted;
  deleted = 0;
  std::int32_t memory[8] = {9, 9, 1, 2, 3, 4, 5, 6};
  std::int64_t shape[2] = {2, 3};
  dlpack::ManagedTensor m;
  m.tensor = {memory, {dlpack::cpu, 0}, 2, {dlpack::signed_int, 32, 1}, shape, nullptr, 8};
  m.deleter = [](dlpack::ManagedTensor*) { ++deleted; };
  {
    const AnyTensor t = from_dlpack(&m);
    CHECK(t.strides() == Dims{3, 1});
    CHECK(t.data() == &memory[2]);
    CHECK(deleted == 0);
  }
  CHECK(deleted == 1);
}

TEST_CASE("what is not ours is refused, and handed back to its deleter") {
  static int deleted;
  deleted = 0;
  std::int64_t shape[7] = {1, 1, 1, 1, 1, 1, 1};
  float memory[1] = {};
  const auto message = [&](const dlpack::Tensor& t) {
    dlpack::ManagedTensor m;
    m.tensor = t;
    m.deleter = [](dlpack::ManagedTensor*) { ++deleted; };
    try {
      from_dlpack(&m, {"user.cpp", 2});
    } catch (const LaunchError& e) {
      return e.diagnostic().message;
    }
    return std::string("no error");
  };
  CHECK(message({memory, {dlpack::cpu, 0}, 1, {5, 64, 1}, shape, nullptr, 0}) ==
        "from_dlpack: element type code 5 with 64 bits and 1 lanes is not one of ours");
  CHECK(message({memory, {dlpack::cpu, 0}, 1, {dlpack::floating, 32, 4}, shape, nullptr, 0}).find("4 lanes") !=
        std::string::npos);
  CHECK(message({memory, {8, 0}, 1, {dlpack::floating, 32, 1}, shape, nullptr, 0}) ==
        "from_dlpack: device type 8 is not one of ours");
  CHECK(message({memory, {dlpack::cpu, 0}, 7, {dlpack::floating, 32, 1}, shape, nullptr, 0}) ==
        "from_dlpack: 7 axes; a tensor has at most 6");
  CHECK(message({nullptr, {dlpack::cpu, 0}, 1, {dlpack::floating, 32, 1}, shape, nullptr, 0}) ==
        "wrap: the pointer is null, but the extents are {1}");
  CHECK(deleted == 5);
  dlpack::VersionedManagedTensor v;
  v.version = {2, 0};
  v.deleter = [](dlpack::VersionedManagedTensor*) { ++deleted; };
  CHECK_THROWS_AS(from_dlpack(&v), LaunchError);
  CHECK(deleted == 6);
  CHECK_THROWS_AS(from_dlpack(static_cast<dlpack::ManagedTensor*>(nullptr)), LaunchError);
}

}  // namespace
}  // namespace tileweave::runtime
