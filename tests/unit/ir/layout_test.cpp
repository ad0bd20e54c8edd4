// Laws of linear layouts and of the plans that convert between them, checked for every coordinate.
// The unit tests of jit/ir/{bit_matrix,layout,layout_instances,layout_conversion}.
#include "tileweave/jit/ir/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "tileweave/jit/ir/layout_conversion.h"

using namespace tileweave::ir;

namespace {

using Rng = std::mt19937_64;

BitMatrix random_matrix(Rng& rng, int rows, int cols) {
  std::vector<std::uint64_t> columns;
  for (int j = 0; j < cols; ++j) columns.push_back(rng() & ((std::uint64_t{1} << rows) - 1));
  return BitMatrix(rows, columns);
}

// A layout of a tile of 2^bits elements in which each flat bit belongs to one random place, in random order, with some
// free bits: everything that the lowering can meet, and more.
Layout random_layout(Rng& rng, const std::vector<int>& axis_bits, int lanes, int warps) {
  const int flat_bits = std::accumulate(axis_bits.begin(), axis_bits.end(), 0);
  std::vector<std::uint64_t> units;
  for (int i = 0; i < flat_bits; ++i) units.push_back(std::uint64_t{1} << i);
  std::shuffle(units.begin(), units.end(), rng);
  // Now and then a sum of bits, which stays independent of the later ones.
  for (std::size_t i = 0; i + 1 < units.size(); ++i) {
    if (rng() % 4 == 0) units[i] ^= units[i + 1];
  }
  Layout l(axis_bits);
  std::size_t next = 0;
  const auto some = [&](Place4 p, int count) {
    for (int i = 0; i < count; ++i) l.add_base(p, next < units.size() && rng() % 8 != 0 ? units[next++] : 0);
  };
  some(Place4::lane, lanes);
  some(Place4::warp, warps);
  while (next < units.size()) l.add_base(Place4::reg, units[next++]);
  return l;
}

// The element held at each place.
template <class F>
void for_each_place(const Layout& l, F f) {
  for (int w = 0; w < 1 << l.bits(Place4::warp); ++w) {
    for (int t = 0; t < 1 << l.bits(Place4::lane); ++t) {
      for (int r = 0; r < l.registers(); ++r) {
        f(static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(w));
      }
    }
  }
}

const std::array<int, 2> row_major{1, 0};
const std::array<int, 2> column_major{0, 1};

}  // namespace

TEST_CASE("bit matrices: product, rank, kernel, pseudo-inverse") {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    const BitMatrix a = random_matrix(rng, 1 + static_cast<int>(rng() % 8), static_cast<int>(rng() % 9));
    const BitMatrix b = random_matrix(rng, a.cols(), static_cast<int>(rng() % 9));
    const BitMatrix ab = a * b, inverse = a.pseudo_inverse();
    for (std::uint64_t x = 0; x < std::uint64_t{1} << b.cols(); ++x) CHECK(ab.apply(x) == a.apply(b.apply(x)));
    std::set<std::uint64_t> image;
    for (std::uint64_t x = 0; x < std::uint64_t{1} << a.cols(); ++x) {
      const std::uint64_t y = a.apply(x);
      image.insert(y);
      CHECK(a.apply(inverse.apply(y)) == y);
      CHECK(a.apply(a.solve(y).value()) == y);
    }
    CHECK(image.size() == std::uint64_t{1} << a.rank());
    CHECK(a.is_injective() == (image.size() == std::uint64_t{1} << a.cols()));
    CHECK(a.is_surjective() == (image.size() == std::uint64_t{1} << a.rows()));
    for (std::uint64_t y = 0; y < std::uint64_t{1} << a.rows(); ++y) CHECK(a.solve(y).has_value() == image.contains(y));
    CHECK(static_cast<int>(a.kernel().size()) == a.cols() - a.rank());
    for (std::uint64_t k : a.kernel()) CHECK(a.apply(k) == 0);
  }
}

TEST_CASE("subspaces: intersection holds exactly what both hold") {
  Rng rng(2);
  for (int round = 0; round < 200; ++round) {
    const BitMatrix a = random_matrix(rng, 7, static_cast<int>(rng() % 6));
    const BitMatrix b = random_matrix(rng, 7, static_cast<int>(rng() % 6));
    const auto both = intersect(a.columns(), b.columns());
    Subspace in_a, in_b, in_both;
    for (auto v : a.columns()) in_a.add(v);
    for (auto v : b.columns()) in_b.add(v);
    for (auto v : both) CHECK(in_both.add(v));
    for (std::uint64_t v = 0; v < 128; ++v) {
      CHECK(in_both.contains(v) == (in_a.contains(v) && in_b.contains(v)));
      // The remainder is the least member of v's coset.
      std::uint64_t least = v;
      for (std::uint64_t s = 0; s < 128; ++s) {
        if (in_a.contains(s)) least = std::min(least, v ^ s);
      }
      CHECK(in_a.reduce(v) == least);
    }
  }
}

TEST_CASE("layouts are linear, and their inverse finds every element") {
  Rng rng(3);
  for (int round = 0; round < 60; ++round) {
    const Layout l = random_layout(rng, {2, 3, 2}, 3, 1);
    CAPTURE(to_string(l));
    CHECK(l.is_surjective());
    CHECK(l.is_injective_but_free());
    const BitMatrix m = l.matrix(), inverse = l.inverse();
    for (std::uint64_t flat = 0; flat < 128; ++flat) CHECK(m.apply(inverse.apply(flat)) == flat);
    for_each_place(l, [&](std::uint64_t r, std::uint64_t t, std::uint64_t w) {
      const std::uint64_t word = r | t << l.bits(Place4::reg) | w << (l.bits(Place4::reg) + l.bits(Place4::lane));
      CHECK(m.apply(word) == l.apply(r, t, w));
    });
  }
}

TEST_CASE("product puts the outer layout's coordinates above the inner's, and division undoes it") {
  Rng rng(4);
  for (int round = 0; round < 60; ++round) {
    const Layout inner = random_layout(rng, {1, 2}, 1, 1), outer = random_layout(rng, {2, 1}, 2, 1);
    const Layout both = Layout::product(inner, outer);
    for_each_place(both, [&](std::uint64_t r, std::uint64_t t, std::uint64_t w) {
      const auto low = [](std::uint64_t x, int n) { return x & ((std::uint64_t{1} << n) - 1); };
      const int rb = inner.bits(Place4::reg), tb = inner.bits(Place4::lane), wb = inner.bits(Place4::warp);
      const auto in = inner.apply(low(r, rb), low(t, tb), low(w, wb)), out = outer.apply(r >> rb, t >> tb, w >> wb);
      const auto flat = both.apply(r, t, w);
      for (int a = 0; a < 2; ++a) {
        CHECK(both.coordinate(flat, a) == (inner.coordinate(in, a) | outer.coordinate(out, a) << inner.axis_bits(a)));
      }
    });
    const auto quotient = both.divide_left(inner);
    REQUIRE(quotient.has_value());
    CHECK(*quotient == outer);
  }
  // A layout whose low bits are arranged in another way has no such factor.
  const Layout rows = blocked_layout({3, 5}, row_major, 2, 0), columns = blocked_layout({1, 2}, column_major, 1, 0);
  CHECK_FALSE(rows.divide_left(columns).has_value());
}

TEST_CASE("shape operations move coordinates as the tile's do") {
  Rng rng(5);
  const std::array<int, 3> perm{2, 0, 1};
  for (int round = 0; round < 40; ++round) {
    const Layout l = random_layout(rng, {2, 1, 3}, 3, 1);
    const Layout t = l.transpose(perm), reshaped = l.reshape({3, 3}), expanded = l.expand_dims(1);
    for_each_place(l, [&](std::uint64_t r, std::uint64_t lane, std::uint64_t w) {
      const auto flat = l.apply(r, lane, w), moved = t.apply(r, lane, w);
      for (int a = 0; a < 3; ++a) {
        CHECK(t.coordinate(moved, a) == l.coordinate(flat, perm[static_cast<std::size_t>(a)]));
      }
      CHECK(reshaped.apply(r, lane, w) == flat);
      CHECK(expanded.apply(r, lane, w) == flat);
      CHECK(expanded.coordinate(flat, 2) == l.coordinate(flat, 1));
    });
    CHECK(t.transpose(std::array{1, 2, 0}) == l);
    for (int axis = 0; axis < 3; ++axis) {
      const Layout collapsed = l.collapse(axis), sliced = l.slice(axis);
      CHECK(collapsed.axis_bits(axis) == 0);
      CHECK(sliced.rank() == 2);
      CHECK(sliced.is_surjective());
      CHECK(sliced.free_mask(Place4::reg) == 0);
      CHECK(sliced.expand_dims(axis) == collapsed);
      // Each thread keeps exactly the coordinates that it had, without the axis.
      for (std::uint64_t lane = 0; lane < 8; ++lane) {
        std::set<std::pair<std::uint64_t, std::uint64_t>> before, after;
        const int first = axis == 0 ? 1 : 0, second = axis == 2 ? 1 : 2;
        for (int r = 0; r < l.registers(); ++r) {
          const auto flat = l.apply(static_cast<std::uint64_t>(r), lane, 1);
          before.insert({l.coordinate(flat, first), l.coordinate(flat, second)});
        }
        for (int r = 0; r < sliced.registers(); ++r) {
          const auto flat = sliced.apply(static_cast<std::uint64_t>(r), lane, 1);
          after.insert({sliced.coordinate(flat, 0), sliced.coordinate(flat, 1)});
        }
        CHECK(before == after);
      }
    }
  }
}

TEST_CASE("blocked layouts: neighbours in a thread, lanes side by side, the rest in registers") {
  const Layout l = blocked_layout({0, 12}, row_major, 3, 2);  // a row of 4096 for four warps
  CHECK(l.is_surjective());
  CHECK(l.is_injective());
  CHECK(l.registers() == 32);
  for_each_place(l, [&](std::uint64_t r, std::uint64_t t, std::uint64_t w) {
    CHECK(l.apply(r, t, w) == (r & 7) + 8 * t + 256 * w + 1024 * (r >> 3));
  });
  // A small tile leaves lanes and warps free.
  const Layout small = blocked_layout({1, 3}, row_major, 2, 1);
  CHECK(small.is_surjective());
  CHECK(small.registers() == 4);
  CHECK(small.free_mask(Place4::lane) == 0b11100);
  CHECK(small.free_mask(Place4::warp) == 1);
  // Warps can be told to go elsewhere than lanes.
  const Layout rows = blocked_layout({3, 10}, row_major, 2, 2, column_major);
  CHECK(rows.coordinate(rows.apply(0, 0, 3), 0) == 3);
  CHECK(rows.coordinate(rows.apply(0, 0, 3), 1) == 0);
  // The general form.
  const Layout g = blocked_layout({4, 6}, row_major, std::array{1, 2}, std::array{2, 3}, std::array{1, 0});
  CHECK(g.is_surjective());
  CHECK(g.is_injective());
  CHECK(g.coordinate(g.apply(3, 0, 0), 1) == 3);
  CHECK(g.coordinate(g.apply(0, 8, 0), 0) == 2);
}

TEST_CASE("extents that are no powers of two: dead registers are those without any element") {
  const TileShape shape{{3, 192}};
  CHECK(shape.axis_bits() == std::vector<int>{2, 8});
  CHECK(shape.is_padded());
  CHECK_FALSE(TileShape{{4, 64}}.is_padded());
  // 192 = 3 x 64: three of four repeats of 64 are alive, and every one of them is whole.
  const Layout repeats = blocked_layout({8}, std::array{0}, 1, 0);
  const TileShape row{{192}};
  int live = 0;
  for (int r = 0; r < repeats.registers(); ++r) live += row.is_live(repeats, r) ? 1 : 0;
  CHECK(live == 6);
  Rng rng(6);
  for (int round = 0; round < 40; ++round) {
    const Layout l = random_layout(rng, shape.axis_bits(), 5, 1);
    for (int r = 0; r < l.registers(); ++r) {
      bool any = false;
      for (std::uint64_t t = 0; t < 32; ++t) {
        for (std::uint64_t w = 0; w < 2; ++w) any |= shape.contains(l, l.apply(static_cast<std::uint64_t>(r), t, w));
      }
      // Never wrongly dead.
      if (any) CHECK(shape.is_live(l, r));
    }
  }
}

TEST_CASE("mma fragments are those of the PTX manual") {
  for (int bytes : {1, 2, 4}) {
    const Layout a = mma_fragment(MmaOperand::a, bytes), b = mma_fragment(MmaOperand::b, bytes);
    CHECK(a.is_surjective());
    CHECK(a.is_injective());
    CHECK(b.is_surjective());
    CHECK(b.is_injective());
    const std::uint64_t packed = 4u / static_cast<unsigned>(bytes);
    for_each_place(a, [&](std::uint64_t r, std::uint64_t lane, std::uint64_t) {
      const auto flat = a.apply(r, lane);
      const std::uint64_t word = r / packed;
      CHECK(a.coordinate(flat, 0) == lane / 4 + 8 * (word & 1));
      CHECK(a.coordinate(flat, 1) == (lane % 4) * packed + r % packed + (word >= 2 ? 4 * packed : 0));
    });
    for_each_place(b, [&](std::uint64_t r, std::uint64_t lane, std::uint64_t) {
      const auto flat = b.apply(r, lane);
      CHECK(b.coordinate(flat, 1) == lane / 4);
      CHECK(b.coordinate(flat, 0) == (lane % 4) * packed + r % packed + 4 * packed * (r / packed));
    });
  }
  const Layout c = mma_fragment(MmaOperand::accumulator, 4);
  for_each_place(c, [&](std::uint64_t r, std::uint64_t lane, std::uint64_t) {
    const auto flat = c.apply(r, lane);
    CHECK(c.coordinate(flat, 0) == lane / 4 + 8 * (r / 2));
    CHECK(c.coordinate(flat, 1) == 2 * (lane % 4) + r % 2);
  });
  const Layout w = wgmma_accumulator(8);
  CHECK(w.registers() == 128);
  CHECK(w.is_injective());
  CHECK(w.is_surjective());
  for_each_place(w, [&](std::uint64_t r, std::uint64_t lane, std::uint64_t warp) {
    const auto flat = w.apply(r, lane, warp);
    CHECK(w.coordinate(flat, 0) == 16 * warp + lane / 4 + 8 * ((r / 2) % 2));
    CHECK(w.coordinate(flat, 1) == 8 * (r / 4) + 2 * (lane % 4) + r % 2);
  });
  const Layout tiled = mma_layout(MmaOperand::a, 2, {6, 6}, 1, 1);
  CHECK(tiled.is_surjective());
  CHECK(tiled.free_mask(Place4::warp) == 2);
  CHECK(tiled.divide_left(mma_fragment(MmaOperand::a, 2)).has_value());
}

TEST_CASE("ldmatrix gives the A fragment's pieces, swizzled memory is a permutation of chunks") {
  for (int n = 0; n <= 2; ++n) {
    for (bool transposed : {false, true}) {
      const Layout l = ldmatrix_layout(n, transposed);
      CHECK(l.is_surjective());
      CHECK(l.is_injective());
      for_each_place(l, [&](std::uint64_t r, std::uint64_t lane, std::uint64_t) {
        const auto flat = l.apply(r, lane);
        const std::uint64_t row = transposed ? 2 * (lane % 4) + r % 2 : lane / 4;
        CHECK(l.coordinate(flat, 0) == row + 8 * (r / 2));
        CHECK(l.coordinate(flat, 1) == (transposed ? lane / 4 : 2 * (lane % 4) + r % 2));
      });
    }
  }
  const SharedLayout s = SharedLayout::swizzled(6, 6, 2);
  std::set<std::uint64_t> seen;
  for (std::uint64_t row = 0; row < 64; ++row) {
    for (std::uint64_t column = 0; column < 64; ++column) {
      const auto offset = s.offset_of_flat().apply(row * 64 + column);
      CHECK(offset == row * 64 + ((column / 8) ^ (row & 7)) * 8 + column % 8);
      seen.insert(offset);
    }
  }
  CHECK(seen.size() == 4096);
}

namespace {

// Runs a plan on a model of the machine and checks that every place gets its element.
void check_conversion(const Layout& from, const Layout& to, const Conversion& plan) {
  const auto held = [&](std::uint64_t r, std::uint64_t t, std::uint64_t w) { return from.apply(r, t, w); };
  std::map<std::uint64_t, std::uint64_t> memory;
  if (plan.kind == Conversion::Kind::shared) {
    for_each_place(from, [&](std::uint64_t r, std::uint64_t t, std::uint64_t w) {
      const auto offset = plan.shared.write.apply(r | t << from.bits(Place4::reg) | w << (from.bits(Place4::reg) + 5));
      const auto [at, fresh] = memory.insert({offset, held(r, t, w)});
      CHECK((fresh || at->second == held(r, t, w)));
    });
  }
  for_each_place(to, [&](std::uint64_t r, std::uint64_t t, std::uint64_t w) {
    std::uint64_t got = 0;
    if (plan.kind == Conversion::Kind::none) {
      got = held(r, t, w);
    } else if (plan.kind == Conversion::Kind::registers) {
      got = held(static_cast<std::uint64_t>(plan.registers.source[r]), t, w);
    } else if (plan.kind == Conversion::Kind::shuffle) {
      const std::uint64_t lane = plan.shuffle.lane_map.apply(t) ^ plan.shuffle.lane_offset[r];
      got = held(plan.shuffle.sent_register[r] ^ plan.shuffle.sent_map.apply(lane), lane, w);
    } else {
      got = memory.at(plan.shared.read.apply(r | t << to.bits(Place4::reg) | w << (to.bits(Place4::reg) + 5)));
    }
    CHECK(got == to.apply(r, t, w));
  });
  if (plan.kind != Conversion::Kind::shared) return;
  for (int i = 0; i < plan.shared.memory.vector_bits; ++i) {
    const auto unit = std::uint64_t{1} << i;
    CHECK(plan.shared.write.apply(static_cast<std::uint64_t>(plan.shared.write_vector[static_cast<std::size_t>(i)])) ==
          unit);
    CHECK(plan.shared.read.apply(static_cast<std::uint64_t>(plan.shared.read_vector[static_cast<std::size_t>(i)])) ==
          unit);
  }
}

}  // namespace

TEST_CASE("conversions between random layouts bring every element to its place") {
  Rng rng(7);
  std::map<Conversion::Kind, int> kinds;
  for (int round = 0; round < 120; ++round) {
    const std::vector<int> shape{3, 4};
    const int warps = static_cast<int>(rng() % 2);
    const Layout from = random_layout(rng, shape, 5, warps), to = random_layout(rng, shape, 5, warps);
    CAPTURE(to_string(from));
    CAPTURE(to_string(to));
    for (int bytes : {1, 2, 4, 8}) {
      const Conversion plan = plan_conversion(from, to, bytes);
      ++kinds[plan.kind];
      check_conversion(from, to, plan);
      Conversion shared{Conversion::Kind::shared, {}, {}, plan_shared_move(from, to, bytes)};
      check_conversion(from, to, shared);
    }
  }
  CHECK(kinds[Conversion::Kind::shared] > 0);
}

TEST_CASE("conversions take the cheapest way") {
  const Layout rows = blocked_layout({4, 6}, row_major, 2, 1);
  CHECK(plan_conversion(rows, rows, 4).kind == Conversion::Kind::none);
  // The same threads, registers in another order.
  std::array<Layout::Bases, 4> bases{rows.bases(Place4::reg), rows.bases(Place4::lane), rows.bases(Place4::warp), {}};
  std::reverse(bases[0].begin(), bases[0].end());
  const Layout reordered({4, 6}, bases);
  CHECK(plan_conversion(rows, reordered, 4).kind == Conversion::Kind::registers);
  check_conversion(rows, reordered, plan_conversion(rows, reordered, 4));
  // Lanes in another order: one shuffle a register.
  bases[0] = rows.bases(Place4::reg);
  std::reverse(bases[1].begin(), bases[1].end());
  const Layout other_lanes({4, 6}, bases);
  const Conversion shuffle = plan_conversion(rows, other_lanes, 4);
  CHECK(shuffle.kind == Conversion::Kind::shuffle);
  check_conversion(rows, other_lanes, shuffle);
  // A copy in every lane becomes one element a lane without crossing lanes, and back by shuffles.
  const Layout everywhere({2}, {Layout::Bases{1, 2}, Layout::Bases(5, 0), {}, {}});
  const Layout spread({2}, {Layout::Bases{}, Layout::Bases{1, 2, 0, 0, 0}, {}, {}});
  const Conversion pick = plan_conversion(everywhere, spread, 4);
  REQUIRE(pick.kind == Conversion::Kind::shuffle);
  CHECK(pick.shuffle.lane_map == BitMatrix::identity(5));
  check_conversion(everywhere, spread, pick);
  check_conversion(spread, everywhere, plan_conversion(spread, everywhere, 4));
}

TEST_CASE("shared memory passes have no bank conflicts on either side") {
  for (int bytes : {1, 2, 4, 8}) {
    for (int rows = 4; rows <= 7; ++rows) {
      for (int columns = 4; columns <= 7; ++columns) {
        CAPTURE(bytes);
        CAPTURE(rows);
        CAPTURE(columns);
        const Layout by_row = blocked_layout({rows, columns}, row_major, 2, 2);
        const Layout by_column = blocked_layout({rows, columns}, column_major, 2, 2);
        const Layout fragment = mma_layout(MmaOperand::accumulator, 4, {rows, columns}, 1, 1);
        for (const auto& [from, to] : {std::pair(by_row, by_column), {by_row, fragment}, {fragment, by_column}}) {
          const SharedMove move = plan_shared_move(from, to, bytes);
          CHECK(bank_conflicts(from, move.memory, bytes, move.memory.vector_bits) == 1);
          CHECK(bank_conflicts(to, move.memory, bytes, move.memory.vector_bits) == 1);
        }
      }
    }
  }
  // Without a swizzle a transpose does conflict: the measure can fail.
  const Layout by_row = blocked_layout({5, 5}, row_major, 0, 0), by_column = blocked_layout({5, 5}, column_major, 0, 0);
  const SharedLayout plain{BitMatrix::identity(10), 0};
  CHECK(bank_conflicts(by_row, plain, 4, 0) == 1);
  CHECK(bank_conflicts(by_column, plain, 4, 0) == 32);
}
