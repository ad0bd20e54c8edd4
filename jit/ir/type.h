// Types of tile IR values: tiles (a scalar is a tile of rank 0), tiles of pointers, and views.
// Used by every later stage; knows only element types.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tileweave/jit/base/dtype.h"

namespace tileweave::ir {

inline constexpr int max_rank = 5;
using Extents = std::vector<std::int64_t>;

struct Type {
  enum class Kind : std::uint8_t { tile, pointer, view };
  Kind kind = Kind::tile;
  Dtype elem = Dtype::f32;
  bool is_const = false;  // view or pointer to const
  std::int8_t rank = 0;
  std::array<std::int64_t, max_rank> extents{};  // of a tile, in elements; zero past the rank and for views

  static Type scalar(Dtype t) { return Type{Kind::tile, t, false, 0, {}}; }
  static Type tile(Dtype t, std::span<const std::int64_t> e);  // at most max_rank extents
  static Type tile(Dtype t, std::initializer_list<std::int64_t> e) { return tile(t, std::span(e.begin(), e.size())); }
  static Type pointer(Dtype t, bool is_const, std::span<const std::int64_t> e);
  static Type view(Dtype t, int rank, bool is_const);

  bool is_tile() const { return kind == Kind::tile; }
  bool is_view() const { return kind == Kind::view; }
  bool is_pointer() const { return kind == Kind::pointer; }
  bool is_scalar() const { return kind != Kind::view && rank == 0; }
  Extents shape() const { return Extents(extents.begin(), extents.begin() + rank); }
  std::int64_t elements() const;  // of a tile; 1 for a scalar
  Type with_elem(Dtype t) const;  // the same shape
  Type with_shape(std::span<const std::int64_t> e) const;
  friend bool operator==(const Type&, const Type&) = default;
};

// "f32[128,64]", "f32", "ptr<f32>[64]", "view<const f32, 2>".
std::string to_string(const Type& t);

}  // namespace tileweave::ir
