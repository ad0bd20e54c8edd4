// Tensor maps on their way from codegen to the driver: words of Binary::meta, and the facts of a launch's views.
#include "tileweave/jit/runtime/tensor_map.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace tileweave;
using namespace tileweave::runtime;

TEST_CASE("plans of tensor maps survive as words among others") {
  TensorMapPlan a;
  a.slot = 5, a.rank = 2, a.element_bytes = 2, a.swizzle_bytes = 128;
  a.axes = {1, 0}, a.extents = {64, 256};
  TensorMapPlan b = a;
  b.slot = 12, b.rank = 3, b.axes = {2, 1, 0}, b.extents = {64, 64, 1};
  const auto back = tensor_map_plans("registers=3 " + tensor_map_words({a, b}) + " spill_bytes=0");
  REQUIRE(back.size() == 2);
  CHECK(back[0].slot == 5);
  CHECK(back[0].swizzle_bytes == 128);
  CHECK(back[0].extents == a.extents);
  CHECK(back[1].axes == b.axes);
  CHECK(back[1].rank == 3);
  CHECK(tensor_map_plans("registers=3").empty());
  // A damaged count of axes reads no further than there are any.
  CHECK(tensor_map_plans("map:0:9:2:128:7:64")[0].rank == TensorMapPlan::most_axes);
  CHECK(tensor_map_plans("map:0:2:2:128:7:64")[0].axes[0] == 1);
}

TEST_CASE("the facts of a map are innermost first, strides in bytes") {
  TensorMapPlan p;
  p.slot = 1, p.rank = 2, p.element_bytes = 2, p.axes = {1, 0};
  const std::vector<std::uint64_t> slots{7, 4096, 100, 72, 80, 1};
  const TensorMapFacts f = tensor_map_facts(p, slots.data());
  CHECK(f.base == 4096);
  CHECK(f.extents[0] == 72);
  CHECK(f.extents[1] == 100);
  CHECK(f.strides[1] == 160);
}

TEST_CASE("views without elements, and axes of one, have maps that the driver takes") {
  TensorMapPlan p;
  p.slot = 0, p.rank = 2, p.element_bytes = 2, p.axes = {1, 0};
  const std::vector<std::uint64_t> empty{0, 0, 64, 64, 1}, one{256, 1, 64, 3, 1};
  TensorMapFacts f = tensor_map_facts(p, empty.data());
  CHECK(f.base == 16);
  CHECK(f.extents[1] == 1);
  CHECK(f.strides[1] % 16 == 0);
  f = tensor_map_facts(p, one.data());
  CHECK(f.base == 256);
  CHECK(f.strides[1] == 16);
}
