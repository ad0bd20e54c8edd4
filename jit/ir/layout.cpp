// The algebra of linear layouts: shape operations, product and division, slices, and which registers are live.
// Between the IR's tiles and the GPU lowering; the instances stand in layout_instances.cpp.
#include "tileweave/jit/ir/layout.h"

#include <bit>

namespace tileweave::ir {
namespace {

constexpr std::array<Place4, place4_count> all_places{Place4::reg, Place4::lane, Place4::warp, Place4::block};

std::uint64_t low_mask(int bits) { return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

int sum(const std::vector<int>& v) {
  int s = 0;
  for (int x : v) s += x;
  return s;
}

}  // namespace

std::string_view place4_name(Place4 p) {
  constexpr std::array<std::string_view, place4_count> names{"reg", "lane", "warp", "block"};
  return names[static_cast<std::size_t>(p)];
}

int Layout::flat_bits() const { return sum(axis_bits_); }

int Layout::axis_shift(int axis) const {
  int shift = 0;
  for (int a = rank() - 1; a > axis; --a) shift += axis_bits(a);
  return shift;
}

std::uint64_t Layout::axis_mask(int axis) const { return low_mask(axis_bits(axis)) << axis_shift(axis); }

std::uint64_t Layout::apply(std::uint64_t reg, std::uint64_t lane, std::uint64_t warp, std::uint64_t block) const {
  const std::array<std::uint64_t, place4_count> inputs{reg, lane, warp, block};
  std::uint64_t flat = 0;
  for (Place4 p : all_places) {
    std::uint64_t x = inputs[static_cast<std::size_t>(p)];
    for (std::uint64_t base : bases(p)) {
      if ((x & 1) != 0) flat ^= base;
      x >>= 1;
    }
  }
  return flat;
}

BitMatrix Layout::matrix() const {
  std::vector<std::uint64_t> columns;
  for (Place4 p : all_places) columns.insert(columns.end(), bases(p).begin(), bases(p).end());
  return BitMatrix(flat_bits(), std::move(columns));
}

std::uint64_t Layout::free_mask(Place4 p) const {
  std::uint64_t mask = 0;
  for (int i = 0; i < bits(p); ++i) {
    if (bases(p)[static_cast<std::size_t>(i)] == 0) mask |= std::uint64_t{1} << i;
  }
  return mask;
}

bool Layout::is_injective_but_free() const {
  int used = 0;
  for (Place4 p : all_places) used += bits(p) - std::popcount(free_mask(p));
  return matrix().rank() == used;
}

Layout Layout::map_flat(std::vector<int> axis_bits, const BitMatrix& m) const {
  Layout result(std::move(axis_bits));
  for (Place4 p : all_places) {
    for (std::uint64_t base : bases(p)) result.add_base(p, m.apply(base));
  }
  return result;
}

Layout Layout::product(const Layout& inner, const Layout& outer) {
  std::vector<int> axis_bits;
  for (int a = 0; a < inner.rank(); ++a) axis_bits.push_back(inner.axis_bits(a) + outer.axis_bits(a));
  Layout result(std::move(axis_bits));
  for (Place4 p : all_places) {
    for (std::uint64_t base : inner.bases(p)) {
      std::uint64_t flat = 0;
      for (int a = 0; a < result.rank(); ++a) flat |= inner.coordinate(base, a) << result.axis_shift(a);
      result.add_base(p, flat);
    }
    for (std::uint64_t base : outer.bases(p)) {
      std::uint64_t flat = 0;
      for (int a = 0; a < result.rank(); ++a) {
        flat |= outer.coordinate(base, a) << (result.axis_shift(a) + inner.axis_bits(a));
      }
      result.add_base(p, flat);
    }
  }
  return result;
}

std::optional<Layout> Layout::divide_left(const Layout& inner) const {
  if (inner.rank() != rank()) return std::nullopt;
  std::vector<int> outer_bits;
  for (int a = 0; a < rank(); ++a) {
    if (inner.axis_bits(a) > axis_bits(a)) return std::nullopt;
    outer_bits.push_back(axis_bits(a) - inner.axis_bits(a));
  }
  Layout outer(outer_bits);
  for (Place4 p : all_places) {
    if (inner.bits(p) > bits(p)) return std::nullopt;
    for (std::size_t i = static_cast<std::size_t>(inner.bits(p)); i < bases(p).size(); ++i) {
      std::uint64_t flat = 0;
      for (int a = 0; a < rank(); ++a) {
        flat |= (coordinate(bases(p)[i], a) >> inner.axis_bits(a)) << outer.axis_shift(a);
      }
      outer.add_base(p, flat);
    }
  }
  if (product(inner, outer) != *this) return std::nullopt;
  return outer;
}

Layout Layout::collapse(int axis) const {
  std::vector<int> kept = axis_bits_;
  kept[static_cast<std::size_t>(axis)] = 0;
  // Bits below the axis stay, bits above move down over it.
  std::vector<std::uint64_t> columns;
  const int shift = axis_shift(axis), width = axis_bits(axis);
  for (int i = 0; i < flat_bits(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    columns.push_back(i < shift ? bit : i < shift + width ? 0 : bit >> width);
  }
  return map_flat(std::move(kept), BitMatrix(flat_bits() - width, std::move(columns))).without_free_registers();
}

Layout Layout::slice(int axis) const {
  Layout result = collapse(axis);
  result.axis_bits_.erase(result.axis_bits_.begin() + axis);
  return result;
}

Layout Layout::transpose(std::span<const int> perm) const {
  std::vector<int> result_bits;
  for (int from : perm) result_bits.push_back(axis_bits(from));
  const Layout shape(result_bits);
  std::vector<std::uint64_t> columns(static_cast<std::size_t>(flat_bits()));
  for (int to = 0; to < rank(); ++to) {
    const int from = perm[static_cast<std::size_t>(to)];
    for (int i = 0; i < axis_bits(from); ++i) {
      columns[static_cast<std::size_t>(axis_shift(from) + i)] = std::uint64_t{1} << (shape.axis_shift(to) + i);
    }
  }
  return map_flat(result_bits, BitMatrix(flat_bits(), std::move(columns)));
}

Layout Layout::reshape(std::vector<int> axis_bits) const { return Layout(std::move(axis_bits), bases_); }

Layout Layout::expand_dims(int axis) const {
  std::vector<int> result = axis_bits_;
  result.insert(result.begin() + axis, 0);
  return reshape(std::move(result));
}

Layout Layout::without_free_registers() const {
  Layout result(axis_bits_, bases_);
  Bases& regs = result.bases_[static_cast<std::size_t>(Place4::reg)];
  std::erase(regs, std::uint64_t{0});
  return result;
}

std::string to_string(const Layout& l) {
  std::string text = "tile ";
  for (int a = 0; a < l.rank(); ++a) {
    if (a > 0) text += 'x';
    text += std::to_string(std::int64_t{1} << l.axis_bits(a));
  }
  text += ':';
  for (Place4 p : all_places) {
    if (l.bits(p) == 0) continue;
    text += ' ';
    text += place4_name(p);
    text += " {";
    for (int i = 0; i < l.bits(p); ++i) {
      if (i > 0) text += ' ';
      text += std::to_string(l.bases(p)[static_cast<std::size_t>(i)]);
    }
    text += '}';
  }
  return text;
}

int bits_for(std::int64_t extent) {
  return extent <= 1 ? 0 : 64 - std::countl_zero(static_cast<std::uint64_t>(extent - 1));
}

std::vector<int> TileShape::axis_bits() const {
  std::vector<int> bits;
  for (std::int64_t e : extents) bits.push_back(bits_for(e));
  return bits;
}

bool TileShape::is_padded() const {
  for (std::int64_t e : extents) {
    if (e != std::int64_t{1} << bits_for(e)) return true;
  }
  return false;
}

bool TileShape::contains(const Layout& l, std::uint64_t flat) const {
  for (int a = 0; a < l.rank(); ++a) {
    if (static_cast<std::int64_t>(l.coordinate(flat, a)) >= extents[static_cast<std::size_t>(a)]) return false;
  }
  return true;
}

bool TileShape::is_live(const Layout& l, int reg) const {
  // The smallest coordinate that the lanes and warps can make along each axis, alone: exact for layouts whose lane and
  // warp bits move one axis each, and never wrongly dead for others.
  const std::uint64_t own = l.apply(static_cast<std::uint64_t>(reg));
  for (int a = 0; a < l.rank(); ++a) {
    Subspace moves;
    for (Place4 p : {Place4::lane, Place4::warp, Place4::block}) {
      for (std::uint64_t base : l.bases(p)) moves.add(base & l.axis_mask(a));
    }
    const std::uint64_t least = moves.reduce(own & l.axis_mask(a));
    if (static_cast<std::int64_t>(l.coordinate(least, a)) >= extents[static_cast<std::size_t>(a)]) return false;
  }
  return true;
}

}  // namespace tileweave::ir
