// What a launch may ask for beside its arguments: options and the grid.
// Taken by Kernel::launch; both enter the key of the variant or the launch itself.
#pragma once

#include <array>
#include <concepts>

#include "tileweave/dsl/element.h"

namespace tileweave {

// Options that change code. Zero: the compiler chooses.
struct Options {
  int warps = 0;
  int stages = 0;
  bool fast_math = false;
  bool contract = true;   // a * b + c within one expression may become one fma
  bool checked = false;   // bounds-checked accesses
  int debug = 0;          // 0, 1: source lines, 2: source lines and named values
  bool overflow = false;  // + - * of signed integers that overflow fail the launch, instead of wrapping
};

// The number of programs along up to three axes. 64 bits; zero is legal and launches nothing.
class Grid {
 public:
  template <std::integral X>
  constexpr Grid(X x) : n_{static_cast<index_t>(x), 1, 1} {}
  template <std::integral X, std::integral Y>
  constexpr Grid(X x, Y y) : n_{static_cast<index_t>(x), static_cast<index_t>(y), 1} {}
  template <std::integral X, std::integral Y, std::integral Z>
  constexpr Grid(X x, Y y, Z z) : n_{static_cast<index_t>(x), static_cast<index_t>(y), static_cast<index_t>(z)} {}

  const index_t* data() const { return n_.data(); }
  index_t operator[](int axis) const { return n_[static_cast<std::size_t>(axis)]; }

 private:
  std::array<index_t, 3> n_;
};

}  // namespace tileweave
