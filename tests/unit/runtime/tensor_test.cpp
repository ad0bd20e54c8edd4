// Tensors on the host: making them, views, copies, overlap, and every refusal with its text.
// Tests jit/runtime/tensor*, strided_copy, storage.
#include "tileweave/jit/runtime/tensor.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/strided_copy.h"

namespace tileweave::runtime {
namespace {

const Place here{"user.cpp", 10};

AnyTensor counting(const Dims& extents) {
  std::int64_t n = 1;
  for (const std::int64_t e : extents) n *= e;
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return AnyTensor::from_host(Device::cpu(), Dtype::i32, extents, std::as_bytes(std::span(values)));
}
std::vector<std::int32_t> values_of(const AnyTensor& t) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(t.size()));
  t.to_host(std::as_writable_bytes(std::span(v)));
  return v;
}
using Ints = std::vector<std::int32_t>;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const LaunchError& e) {
    return e.what();
  }
  return "no error";
}

// All indices of a tensor, by addresses of the elements.
template <class F>
void for_each_address(const AnyTensor& t, F&& f) {
  for (std::int64_t n = 0; n < t.size(); ++n) {
    std::int64_t rest = n, offset = 0;
    for (int k = t.rank() - 1; k >= 0; --k) {
      offset += rest % t.extent(k) * t.stride(k);
      rest /= t.extent(k);
    }
    f(static_cast<std::byte*>(t.data()) + offset * dtype_bytes(t.dtype()));
  }
}

TEST_CASE("a new tensor is row-major and aligned") {
  const AnyTensor t = AnyTensor::empty(Device::cpu(), Dtype::f16, {3, 1, 5});
  CHECK(t.strides() == Dims{5, 5, 1});
  CHECK(t.size() == 15);
  CHECK(t.is_contiguous());
  CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % 64 == 0);
  for (const std::byte b : AnyTensor::zeros(Device::cpu(), Dtype::f64, {7, 3}).to_host()) CHECK(b == std::byte{0});
  const AnyTensor scalar = AnyTensor::zeros(Device::cpu(), Dtype::i8, {});
  CHECK(scalar.size() == 1);
  CHECK_FALSE(AnyTensor().defined());
}

TEST_CASE("empty tensors are legal") {
  const AnyTensor t = AnyTensor::zeros(Device::cpu(), Dtype::f32, {3, 0, INT64_MAX});
  CHECK(t.size() == 0);
  CHECK(t.to_host().empty());
  CHECK(t.is_contiguous());
  CHECK(t.transpose(0, 2).size() == 0);
  CHECK(t.reshape({0, 7}).size() == 0);
  CHECK_FALSE(may_overlap(t, t));
  t.copy_from(t.contiguous());
  CHECK(counting({4}).slice(0, 2, 2).size() == 0);
}

TEST_CASE("views move extents and strides, not memory") {
  const AnyTensor t = counting({2, 3, 4});
  CHECK(t.transpose().extents() == Dims{2, 4, 3});
  CHECK(values_of(t.transpose(0, 2).select(0, 1)) == Ints{1, 13, 5, 17, 9, 21});
  CHECK(values_of(t.permute({2, 0, 1}).select(0, -1)) == Ints{3, 7, 11, 15, 19, 23});
  CHECK(values_of(t.slice(2, 1, 3).select(0, 1)) == Ints{13, 14, 17, 18, 21, 22});
  CHECK(values_of(t.select(0, 0).select(0, 1).flip(0)) == Ints{7, 6, 5, 4});
  CHECK(values_of(counting({3}).broadcast_to({2, 3})) == Ints{0, 1, 2, 0, 1, 2});
  CHECK(counting({3, 1}).broadcast_to({2, 3, 4}).strides() == Dims{0, 1, 0});
  CHECK(t.unsqueeze(1).extents() == Dims{2, 1, 3, 4});
  CHECK(t.unsqueeze(-1).squeeze(3).extents() == t.extents());
  CHECK(t.transpose().storage() == t.storage());
  CHECK(values_of(t.transpose().contiguous()) == values_of(t.transpose()));
  CHECK(t.contiguous().storage() == t.storage());
  CHECK(t.view_as(Dtype::f32).dtype() == Dtype::f32);
}

TEST_CASE("slices mean what they mean in NumPy") {
  const AnyTensor t = counting({6});
  const auto slice = [&](std::int64_t lo, std::int64_t hi, std::int64_t step) {
    return values_of(t.slice(0, lo, hi, step));
  };
  CHECK(slice(1, 5, 2) == Ints{1, 3});
  CHECK(slice(-2, whole_axis, 1) == Ints{4, 5});
  CHECK(slice(0, 100, 1) == Ints{0, 1, 2, 3, 4, 5});
  CHECK(slice(-100, -1, 1) == Ints{0, 1, 2, 3, 4});
  CHECK(slice(5, whole_axis, -2) == Ints{5, 3, 1});
  CHECK(slice(4, 1, -1) == Ints{4, 3, 2});
  CHECK(slice(100, 2, -2) == Ints{5, 3});
  CHECK(slice(4, 2, 1).empty());
  CHECK(slice(2, 4, -1).empty());
  CHECK(slice(1, 6, INT64_MAX) == Ints{1});
  CHECK(slice(5, whole_axis, INT64_MIN + 1) == Ints{5});
  CHECK(slice(5, whole_axis, INT64_MIN) == Ints{5});
  CHECK(values_of(t.flip(0).slice(0, 1, 4)) == Ints{4, 3, 2});
}

TEST_CASE("reshape without a copy wherever the strides allow it") {
  const AnyTensor t = counting({4, 6});
  CHECK(values_of(t.reshape({2, 2, 3, 2})) == values_of(t));
  CHECK(t.reshape({-1, 8}).extents() == Dims{3, 8});
  CHECK(t.reshape({1, 24, 1}).strides()[1] == 1);
  CHECK(t.slice(1, 0, whole_axis, 2).reshape({12}).stride(0) == 2);
  CHECK(t.slice(0, 0, whole_axis, 2).reshape({2, 3, 2}).strides() == Dims{12, 2, 1});
  CHECK(counting({1}).broadcast_to({6}).reshape({2, 3}).strides() == Dims{0, 0});
  const AnyTensor turned = t.transpose();
  CHECK(turned.reshape({2, 3, 4}).strides() == Dims{3, 1, 6});
  CHECK(error_of([&] { turned.reshape({24}, here); }) ==
        "user.cpp:10: error: reshape: i32{6, 4} with strides {1, 6} cannot become {24} without a copy\n  help: call "
        ".contiguous() first");
  CHECK(error_of([&] { t.reshape({5, 5}, here); }) ==
        "user.cpp:10: error: reshape: i32{4, 6} has 24 elements, {5, 5} does not");
  CHECK(error_of([&] { t.reshape({-1, 7}, here); }).find("has 24 elements") != std::string::npos);
}

TEST_CASE("impossible tensors and views are refused with numbers and place") {
  const Device cpu = Device::cpu();
  const AnyTensor t = counting({2, 3});
  CHECK(error_of([&] { AnyTensor::empty(cpu, Dtype::f32, {2, -3}, Memory::device, here); }) ==
        "user.cpp:10: error: extents {2, -3}: an extent is negative");
  CHECK(
      error_of([&] { AnyTensor::empty(cpu, Dtype::f32, {1, 1, 1, 1, 1, 1, 1}, Memory::device, here); }) ==
      "user.cpp:10: error: a tensor has at most 6 axes, not 7\n  help: merge axes with reshape, or run over the outer "
      "ones in a loop");
  CHECK(error_of([&] { AnyTensor::empty(cpu, Dtype::f64, {INT64_MAX / 4, 3}, Memory::device, here); }) ==
        "user.cpp:10: error: extents {2305843009213693951, 3} of f64 pass 9223372036854775807 (2^63 - 1) bytes");
  CHECK(error_of([&] {
          AnyTensor::empty(cpu, Dtype::i8, {std::int64_t{1} << 60}, Memory::device, here);
        }).starts_with("user.cpp:10: error: no memory for 1152921504606846976 bytes on "));
  CHECK(error_of([&] { t.transpose(0, 2, here); }) ==
        "user.cpp:10: error: transpose: axis 2 of i32{2, 3} is out of range\n  help: axes are -2 to 1");
  CHECK(error_of([&] { t.permute({0, 0}, here); }) ==
        "user.cpp:10: error: permute: axes {0, 0} do not name each axis of i32{2, 3} once");
  CHECK(error_of([&] { t.slice(0, 0, 1, 0, here); }) == "user.cpp:10: error: slice: the step along axis 0 is 0");
  CHECK(error_of([&] { t.select(1, 3, here); }) ==
        "user.cpp:10: error: select: index 3 of axis 1 of i32{2, 3} is out of range");
  CHECK(error_of([&] { t.squeeze(0, here); }) ==
        "user.cpp:10: error: squeeze: axis 0 of i32{2, 3} has extent 2, not 1");
  CHECK(error_of([&] { t.broadcast_to({4, 3}, here); }) ==
        "user.cpp:10: error: broadcast_to: i32{2, 3} does not broadcast to {4, 3}\n  help: extents must be equal or 1, "
        "counted from the last axis");
  CHECK(error_of([&] { t.broadcast_to({3}, here); }).find("does not broadcast") != std::string::npos);
  CHECK(error_of([&] { t.view_as(Dtype::f64, here); }) ==
        "user.cpp:10: error: view_as: i32 and f64 have different sizes");
  CHECK(error_of([&] { AnyTensor().contiguous(here); }) ==
        "user.cpp:10: error: contiguous: there is no tensor (default-constructed or moved from)\n  help: make it with "
        "empty, zeros, wrap or an op first");
  CHECK(error_of([&] { t.copy_from(counting({3, 2}), nullptr, here); }) ==
        "user.cpp:10: error: copy_from: i32{3, 2} cannot be copied into i32{2, 3}\n  help: element types and extents "
        "must "
        "be equal; see broadcast_to, reshape and casts");
  CHECK(error_of([&] { t.select(0, 0).broadcast_to({2, 3}).copy_from(t, nullptr, here); }) ==
        "user.cpp:10: error: copy_from: several indices of i32{2, 3} with strides {0, 1} are one element, so it cannot "
        "be "
        "written");
  CHECK(error_of([&] { t.copy_from_host({}, here); }) ==
        "user.cpp:10: error: copy_from_host: i32{2, 3} takes 24 bytes, not 0");
  CHECK(error_of([&] { AnyTensor::wrap(nullptr, Dtype::f32, {2}, {1}, cpu, here); }) ==
        "user.cpp:10: error: wrap: the pointer is null, but the extents are {2}");
  int x = 0;
  CHECK(error_of([&] { AnyTensor::wrap(&x, Dtype::i32, {2}, {1, 1}, cpu, here); }) ==
        "user.cpp:10: error: wrap: 1 extents {2} but 2 strides {1, 1}");
  CHECK(error_of([&] {
          AnyTensor::wrap(&x, Dtype::i32, {3, 2}, {INT64_MAX / 2, 1}, cpu, here);
        }).find("reach past 9223372036854775807 (2^63 - 1) bytes") != std::string::npos);
  CHECK(
      error_of([&] { require_reachable(AnyTensor(), cpu.stream(), "argument 'x'", here); }) ==
      "user.cpp:10: error: argument 'x' is no tensor (default-constructed or moved from)\n  help: make it with empty, "
      "zeros, wrap or an op first");
}

TEST_CASE("wrapped memory: negative strides, release once, no copy") {
  std::vector<std::int32_t> memory = {0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    AnyTensor t = AnyTensor::wrap(&memory[5], Dtype::i32, {3}, {-2}, Device::cpu(), here, [&] { ++released; });
    CHECK(values_of(t) == Ints{5, 3, 1});
    const AnyTensor view = t.slice(0, 1, 3);
    t = AnyTensor();
    CHECK(released == 0);
    view.copy_from(counting({2}));
    CHECK(memory == Ints{0, 1, 2, 0, 4, 5});
  }
  CHECK(released == 1);
}

TEST_CASE("more than 2^31 elements: addresses of 64 bits, pages only where touched") {
  const AnyTensor t = AnyTensor::empty(Device::cpu(), Dtype::i8, {18, std::int64_t{1} << 27});
  const AnyTensor column = t.select(1, 0);
  std::vector<std::byte> values(18);
  for (int r = 0; r < 18; ++r) values[static_cast<std::size_t>(r)] = static_cast<std::byte>(r + 1);
  column.copy_from_host(values);
  for (std::int64_t r = 0; r < 18; ++r) {
    CHECK(static_cast<std::byte*>(t.data())[r << 27] == static_cast<std::byte>(r + 1));
  }
  CHECK(column.to_host() == values);
  CHECK(t.slice(0, 17, 18).slice(1, -1, whole_axis).byte_offset() == (std::int64_t{18} << 27) - 1);
}

// A random view of a random tensor.
AnyTensor random_view(std::mt19937& random, const AnyTensor& from) {
  AnyTensor t = from;
  for (int steps = static_cast<int>(random() % 4); steps > 0; --steps) {
    const int axis = static_cast<int>(random() % static_cast<unsigned>(t.rank()));
    switch (random() % 4) {
      case 0:
        t = t.transpose(axis, 0);
        break;
      case 1:
        t = t.flip(axis);
        break;
      case 2: {
        const auto n = static_cast<unsigned>(t.extent(axis));
        if (n > 1) t = t.slice(axis, random() % (n / 2), n - random() % (n / 2), 1 + random() % 3);
        break;
      }
      default:
        if (t.rank() > 1)
          t = t.select(axis, static_cast<std::int64_t>(random() % static_cast<unsigned>(t.extent(axis))));
    }
  }
  return t;
}

TEST_CASE("copies between random views agree with an element loop, also where they overlap") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    Dims extents;
    for (int i = 1 + static_cast<int>(random() % 4); i > 0; --i) extents.push_back(1 + random() % 6);
    const AnyTensor a = counting(extents);
    const AnyTensor source = random_view(random, a);
    const AnyTensor base = trial % 3 == 0 ? a : counting(extents);
    AnyTensor target = random_view(random, base);
    if (target.extents() != source.extents()) {  // else a tensor that fits
      target = AnyTensor::zeros(Device::cpu(), Dtype::i32, source.extents());
      if (random() % 2 != 0) target = target.flip(0);
    }
    Ints expected;
    for_each_address(source, [&](std::byte* p) {
      std::int32_t v = 0;
      std::memcpy(&v, p, 4);
      expected.push_back(v);
    });
    target.copy_from(source);
    CHECK(values_of(target) == expected);
  }
}

TEST_CASE("large copies are shared out and right") {
  const AnyTensor t = counting({700, 900});
  const AnyTensor turned = t.transpose().contiguous();
  const Ints v = values_of(turned);
  bool right = true;
  for (std::int64_t i = 0; i < 900; ++i) {
    for (std::int64_t k = 0; k < 700; ++k) right &= v[static_cast<std::size_t>(i * 700 + k)] == k * 900 + i;
  }
  CHECK(right);
  const AnyTensor flat = counting({1'000'003});
  CHECK(values_of(flat) == values_of(flat.flip(0).contiguous().flip(0)));
}

TEST_CASE("a copy is reduced to as few axes as it has") {
  const AnyTensor t = counting({4, 5, 6});
  CHECK(plan_copy(counting({4, 5, 6}), t).rank == 1);
  CHECK(plan_copy(counting({4, 5, 6}), t).run_bytes() == 480);
  CHECK(plan_copy(counting({4, 5, 3}), t.slice(2, 0, 3)).rank == 2);
  CHECK(plan_copy(counting({4, 5, 3}), t.slice(2, 0, 3)).runs() == 20);
  CHECK(plan_copy(counting({1, 1}), t.slice(0, 0, 1).slice(1, 0, 1).select(2, 0)).rank == 0);
}

TEST_CASE("overlap is exact for views of one tensor") {
  const AnyTensor t = counting({8, 64});
  CHECK(may_overlap(t, t));
  CHECK_FALSE(may_overlap(t.slice(0, 0, 4), t.slice(0, 4, 8)));
  CHECK_FALSE(may_overlap(t.slice(1, 0, 32), t.slice(1, 32, 64)));  // interleaved rows
  CHECK(may_overlap(t.slice(1, 0, 33), t.slice(1, 32, 64)));
  CHECK_FALSE(may_overlap(t.slice(1, 0, whole_axis, 2), t.slice(1, 1, whole_axis, 2)));
  CHECK_FALSE(may_overlap(t.slice(1, 0, whole_axis, 2), t.flip(1).slice(1, 0, whole_axis, 2)));
  CHECK(may_overlap(t.slice(1, 0, whole_axis, 2), t.slice(1, 1, whole_axis, 3)));
  CHECK_FALSE(may_overlap(t, counting({8, 64})));
  CHECK(is_same_view(t, t.reshape({8, 64})));
  CHECK_FALSE(is_same_view(t, t.flip(0)));
  CHECK_FALSE(may_overlap_itself(t));
  CHECK_FALSE(may_overlap_itself(t.transpose().flip(0)));
  CHECK(may_overlap_itself(t.select(0, 0).broadcast_to({2, 64})));
  std::vector<std::int32_t> memory(10);
  CHECK(may_overlap_itself(AnyTensor::wrap(memory.data(), Dtype::i32, {3, 3}, {2, 1}, Device::cpu())));
}

TEST_CASE("overlap against the addresses themselves, for random pairs of views") {
  std::mt19937 random(11);
  int overlapping = 0, apart = 0, cautious = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const AnyTensor t = counting({6, 5, 4});
    const AnyTensor a = random_view(random, t), b = random_view(random, t);
    std::set<std::byte*> touched;
    for_each_address(a, [&](std::byte* p) { touched.insert(p); });
    bool meets = false;
    for_each_address(b, [&](std::byte* p) { meets |= touched.contains(p); });
    const bool may = may_overlap(a, b);
    if (meets) CHECK(may);
    (meets ? overlapping : apart) += 1;
    cautious += may && !meets;
  }
  CHECK(overlapping > 300);
  CHECK(apart > 100);
  CHECK(cautious == 0);
}

TEST_CASE("slots of a view") {
  const AnyTensor t = counting({4, 6}).slice(1, 1, 5, 2).flip(0);
  std::uint64_t slots[6] = {};
  CHECK(t.write_slots(slots) == slots + slots_of_view(2));
  CHECK(slots[0] == reinterpret_cast<std::uintptr_t>(t.data()));
  CHECK(slots[1] == 4);
  CHECK(slots[2] == 2);
  CHECK(static_cast<std::int64_t>(slots[3]) == -6);
  CHECK(slots[4] == 2);
  CHECK(slots[5] == 0);
  CHECK(scalar_slot(1.0f) == 0x3f800000u);
  CHECK(scalar_slot(std::int8_t{-1}) == 0xffu);
  CHECK(scalar_slot(true) == 1u);
}

}  // namespace
}  // namespace tileweave::runtime
