// Linear layouts: which element of a tile each register of each lane of each warp (of each block) holds, as a linear
// map over GF(2) (Zhou et al., "Linear Layouts", 2025). The GPU lowering reasons about data placement only through it.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tileweave/jit/ir/bit_matrix.h"

namespace tileweave::ir {

// Where a value sits: the inputs of a layout.
enum class Place4 : std::uint8_t { reg, lane, warp, block };
inline constexpr int place4_count = 4;
std::string_view place4_name(Place4 p);

// The image of (reg, lane, warp, block) bits is the row-major index of an element in a tile whose extents are powers of
// two; the last axis is fastest. A real tile of other extents is padded: see TileShape.
class Layout {
 public:
  using Bases = std::vector<std::uint64_t>;

  Layout() = default;
  // A tile with 2^axis_bits[i] elements along axis i, held nowhere yet.
  explicit Layout(std::vector<int> axis_bits) : axis_bits_(std::move(axis_bits)) {}
  Layout(std::vector<int> axis_bits, std::array<Bases, place4_count> bases)
      : axis_bits_(std::move(axis_bits)), bases_(std::move(bases)) {}

  // --- shape
  int rank() const { return static_cast<int>(axis_bits_.size()); }
  int axis_bits(int axis) const { return axis_bits_[static_cast<std::size_t>(axis)]; }
  const std::vector<int>& shape_bits() const { return axis_bits_; }
  int flat_bits() const;
  // Position of the lowest bit of `axis` in a flat index.
  int axis_shift(int axis) const;
  std::uint64_t axis_mask(int axis) const;
  std::uint64_t coordinate(std::uint64_t flat, int axis) const { return (flat & axis_mask(axis)) >> axis_shift(axis); }

  // --- inputs
  const Bases& bases(Place4 p) const { return bases_[static_cast<std::size_t>(p)]; }
  int bits(Place4 p) const { return static_cast<int>(bases(p).size()); }
  int registers() const { return 1 << bits(Place4::reg); }
  std::uint64_t apply(std::uint64_t reg, std::uint64_t lane = 0, std::uint64_t warp = 0, std::uint64_t block = 0) const;
  // All inputs in one word: reg in the low bits, then lane, warp, block.
  BitMatrix matrix() const;
  // Bits of p that move nothing: every value of them holds the same element.
  std::uint64_t free_mask(Place4 p) const;

  // --- laws
  bool is_surjective() const { return matrix().is_surjective(); }  // every element is held somewhere
  bool is_injective() const { return matrix().is_injective(); }    // nowhere twice
  // Each input bit is free or independent of the others: every element is held by a full product of free bits.
  bool is_injective_but_free() const;
  // From a flat index to one place that holds it, free bits 0: matrix() * inverse() is the identity if surjective.
  BitMatrix inverse() const { return matrix().pseudo_inverse(); }

  // --- algebra
  void add_base(Place4 p, std::uint64_t flat) { bases_[static_cast<std::size_t>(p)].push_back(flat); }
  // Outer repeats of inner: the inner's bits are the low ones of every input and axis. Ranks are equal.
  static Layout product(const Layout& inner, const Layout& outer);
  // The outer factor x with product(inner, x) == *this, where there is one.
  std::optional<Layout> divide_left(const Layout& inner) const;
  // The elements' coordinates without `axis`: what a reduction along it leaves. Registers that hold the same element as
  // an earlier one go; lanes and warps stay, free.
  Layout slice(int axis) const;
  // As slice, but the axis stays with extent 1: the operand of a broadcast along it.
  Layout collapse(int axis) const;
  Layout transpose(std::span<const int> perm) const;  // result axis i is axis perm[i]
  Layout reshape(std::vector<int> axis_bits) const;   // the same row-major index
  Layout expand_dims(int axis) const;                 // a new axis of extent 1
  Layout without_free_registers() const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  Layout map_flat(std::vector<int> axis_bits, const BitMatrix& m) const;

  std::vector<int> axis_bits_;
  std::array<Bases, place4_count> bases_;
};

// "f32 tile 4x64: reg {1 2} lane {4 8 16 32 64} warp {128}", for dumps and test messages.
std::string to_string(const Layout& l);

// Bits of the next power of two: 0 for 1, 8 for 192.
int bits_for(std::int64_t extent);
// A tile's real extents over a layout of the padded tile: which elements exist.
struct TileShape {
  std::vector<std::int64_t> extents;
  std::vector<int> axis_bits() const;
  bool is_padded() const;
  bool contains(const Layout& l, std::uint64_t flat) const;
  // True where register `reg` holds a real element in at least one lane of one warp: others need no code. 192 = 3 x 64
  // comes out as three live repeats of four.
  bool is_live(const Layout& l, int reg) const;
};

// --- instances

// Fills the axes of `order` (fastest first) with registers, lanes, warps, then registers again: 2^vector_bits
// neighbours along the first axis a thread (fewer where the axis is shorter), lanes next to each other, warps after
// them along `warp_order` (empty: as `order`). What finds no room is free.
Layout blocked_layout(const std::vector<int>& axis_bits, std::span<const int> order, int vector_bits, int warp_bits,
                      std::span<const int> warp_order = {});
// The general blocked layout, by bits per axis: registers next to each other, lanes, warps; repeated to fill the tile.
Layout blocked_layout(const std::vector<int>& axis_bits, std::span<const int> order, std::span<const int> thread_bits,
                      std::span<const int> lane_bits, std::span<const int> warp_bits);

// Fragments of mma.sync m16n8kK for elements of `bytes` (K * bytes == 32 for A and B; the accumulator is 32-bit).
enum class MmaOperand : std::uint8_t { a, b, accumulator };
Layout mma_fragment(MmaOperand operand, int bytes);
// Fragments tiled over axis_bits: registers repeat over n (k) first, then m; warps along m, then n.
Layout mma_layout(MmaOperand operand, int bytes, const std::vector<int>& axis_bits, int warp_bits_m, int warp_bits_n);
// The accumulator of wgmma m64nN: four warps along m.
Layout wgmma_accumulator(int n_bits);
// Where ldmatrix.xN puts the 8x8 matrices of 16-bit elements, matrix i at rows 8i of an (8 * 2^log2_count) x 8 tile.
Layout ldmatrix_layout(int log2_count, bool transposed);

// A layout of shared memory: the element at each offset (in elements), as offset -> flat. Invertible.
struct SharedLayout {
  BitMatrix flat_of_offset;
  int vector_bits = 0;  // elements that stay neighbours
  // Row-major with 16-byte chunks moved by the row: chunk ^ (row & 7), rows of `row_bits` elements. As TMA and wgmma.
  static SharedLayout swizzled(int row_bits, int column_bits, int element_bytes, int swizzle_bits = 3);
  BitMatrix offset_of_flat() const { return flat_of_offset.pseudo_inverse(); }
};

}  // namespace tileweave::ir
