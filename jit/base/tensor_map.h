// The tensor maps (TMA descriptors) that a kernel takes: how each is made of the slots of a view, as Binary::meta says
// it. Agreed between codegen, which plans boxes (gpu_lower_ring.cpp), and the runtime, which makes the maps of a
// launch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tileweave {

// A kernel whose Binary::meta has such words takes one more parameter for each, the last ones, in this order: 128 bytes
// of CUtensorMap by value (under SIMT emulation the address of a simt::TensorMap).
struct TensorMapPlan {
  static constexpr int most_axes = 5;
  int slot = 0;  // of the view's base
  int rank = 0, element_bytes = 0;
  int swizzle_bytes = 0;                 // 32, 64 or 128: a row of the box
  std::array<int, most_axes> axes{};     // of the view, innermost first
  std::array<int, most_axes> extents{};  // of the box, in the same order
};

// As words for Binary::meta, and back; other words of `meta` are passed over.
std::string tensor_map_words(const std::vector<TensorMapPlan>& plans);
std::vector<TensorMapPlan> tensor_map_plans(std::string_view meta);

}  // namespace tileweave
