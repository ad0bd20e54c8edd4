// Reductions of a tile along one axis: in registers, then across lanes by shuffles, then across warps through shared
// memory. The order is fixed by the layout, so results are the same from run to run.
// The lowerings of reduce, arg_reduce and of sums of squared deviations bring what is combined.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <vector>

#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/codegen/gpu_sync.h"

namespace tileweave::codegen {

// The bits of `p` that move the reduced axis.
inline std::uint64_t reduced_bits(const ir::Layout& l, ir::Place4 p, int axis) {
  std::uint64_t mask = 0;
  for (int i = 0; i < l.bits(p); ++i) {
    if ((l.bases(p)[static_cast<std::size_t>(i)] & l.axis_mask(axis)) != 0) mask |= std::uint64_t{1} << i;
  }
  return mask;
}

// The bits of `x` under `mask`, packed.
inline std::uint64_t compress(std::uint64_t x, std::uint64_t mask) {
  std::uint64_t out = 0;
  for (int i = 0, k = 0; i < 64; ++i) {
    if ((mask >> i & 1) != 0) out |= (x >> i & 1) << k++;
  }
  return out;
}

// What is reduced: one value, or a value and its index. A partial result is `width` LLVM values.
struct Reduction {
  using Partial = std::vector<llvm::Value*>;
  int axis = 0;
  std::vector<llvm::Type*> types;
  std::function<Partial(const Partial&, const Partial&)> combine;
  Partial identity;
  // Where a lane is more than one partial result (the factors of a product to add up): the first of a chain, and what
  // each further lane makes of the chain.
  std::function<Partial(const Partial& lane)> start;
  std::function<Partial(const Partial& chain, const Partial& lane)> accumulate;
};

// Reduces `lanes` (by register of `l`; empty where there is no code for it) along the axis; gives the registers of
// l.slice(axis), in every thread that holds them.
class AxisReducer {
  using Place4 = ir::Place4;
  using Layout = ir::Layout;

 public:
  using Partial = Reduction::Partial;
  AxisReducer(GpuContext& c, const ir::Layout& l, const Reduction& r) : c_(c), l_(l), r_(r), result_(l.slice(r.axis)) {}

  // The register of the result that register r belongs to.
  std::size_t result_register(std::size_t r) const {
    const std::uint64_t kept =
        ~reduced_bits(l_, Place4::reg, r_.axis) & ((std::uint64_t{1} << l_.bits(Place4::reg)) - 1);
    return compress(r, kept);
  }

  std::vector<Partial> in_registers(const std::vector<Partial>& lanes) {
    std::vector<std::vector<Partial>> chains(static_cast<std::size_t>(result_.registers()));
    for (std::size_t r = 0; r < lanes.size(); ++r) {
      if (lanes[r].empty()) continue;
      auto& chain = chains[result_register(r)];
      const std::size_t n = ++met_[&chain] - 1;
      if (chain.size() < accumulators) {
        chain.push_back(r_.start ? r_.start(lanes[r]) : lanes[r]);
      } else {
        Partial& sum = chain[n % accumulators];
        sum = r_.accumulate ? r_.accumulate(sum, lanes[r]) : r_.combine(sum, lanes[r]);
      }
      c_.split_long_block();
    }
    std::vector<Partial> out;
    for (auto& chain : chains) {
      for (std::size_t step = 1; step < chain.size(); step *= 2) {
        for (std::size_t i = 0; i + step < chain.size(); i += 2 * step)
          chain[i] = r_.combine(chain[i], chain[i + step]);
      }
      out.push_back(chain.empty() ? Partial{} : chain[0]);
    }
    return out;
  }

  template <class Shuffle>
  void across_lanes(std::vector<Partial>& partials, Shuffle shuffle) {
    const std::uint64_t lanes = reduced_bits(l_, Place4::lane, r_.axis);
    for (int i = 4; i >= 0; --i) {
      if ((lanes >> i & 1) == 0) continue;
      for (Partial& p : partials) {
        if (!p.empty()) p = with_lane(p, i, shuffle);
      }
    }
  }

  // Where there are many warps, each lane takes the results of one and shuffles bring them together: reading all of
  // them in every thread costs more instructions, and registers. The bits of the lane that number the warps then, its
  // lowest; 0 where every thread reads all. Those bits must not lead to another element of the result.
  int bits_of_warp_per_lane() const {
    const int bits = std::popcount(reduced_bits(l_, Place4::warp, r_.axis));
    if (bits < least_bits_to_shuffle || bits > 5) return 0;
    const auto& lanes = result_.bases(Place4::lane);
    return std::all_of(lanes.begin(), lanes.begin() + bits, [](auto base) { return base == 0; }) ? bits : 0;
  }

  // Every warp writes its partial results; after a barrier every thread has those of all warps, in their order: one
  // list for each register of the result. Where there is a warp per lane, the list is of that warp alone.
  template <class Store, class Load>
  std::vector<std::vector<Partial>> of_all_warps(const std::vector<Partial>& partials, SharedScratch& scratch,
                                                 Store store, Load load) {
    const std::uint64_t warps = reduced_bits(l_, Place4::warp, r_.axis);
    std::vector<std::vector<Partial>> lists(partials.size());
    if (warps == 0) {
      for (std::size_t r = 0; r < partials.size(); ++r) {
        if (!partials[r].empty()) lists[r] = {partials[r]};
      }
      return lists;
    }
    const int ways = 1 << std::popcount(warps);
    // A slot for each (register, other lane bits, other warp bits), with `ways` neighbours each.
    std::vector<std::uint64_t> place(static_cast<std::size_t>(5 + c_.warp_bits), 0);
    int bits = std::popcount(warps);
    std::uint64_t copies_of_lane = 0, copies_of_warp = 0;
    for (int i = 0; i < 5; ++i) {
      const bool moves = result_.bases(Place4::lane)[static_cast<std::size_t>(i)] != 0;
      if (moves) place[static_cast<std::size_t>(i)] = std::uint64_t{1} << bits++;
      if (!moves) copies_of_lane |= std::uint64_t{1} << i;
    }
    for (int i = 0, k = 0; i < c_.warp_bits; ++i) {
      auto& base = place[static_cast<std::size_t>(5 + i)];
      if ((warps >> i & 1) != 0) {
        base = std::uint64_t{1} << k++;
      } else if (result_.bases(Place4::warp)[static_cast<std::size_t>(i)] != 0) {
        base = std::uint64_t{1} << bits++;
      } else {
        copies_of_warp |= std::uint64_t{1} << i;
      }
    }
    std::vector<std::uint64_t> slot = place;
    for (std::uint64_t& base : slot) {
      if (base < static_cast<std::uint64_t>(ways)) base = 0;
    }
    const int spread = bits_of_warp_per_lane(), ways_read = spread > 0 ? 1 : ways;
    for (int i = 0; i < spread; ++i) slot[static_cast<std::size_t>(i)] = std::uint64_t{1} << i;
    llvm::Value* first = c_.is_first(copies_of_lane, copies_of_warp);
    const auto count = static_cast<std::int64_t>(partials.size()) << bits;
    std::vector<std::int64_t> base;
    std::int64_t total = 0;
    for (llvm::Type* t : r_.types) {
      base.push_back(total);
      total += count * bytes_of(t);
      total = (total + 15) / 16 * 16;
    }
    const std::int64_t start = scratch.allocate(total);
    const auto offset = [&](const std::vector<std::uint64_t>& bases, std::size_t which, std::size_t r, int way) {
      const std::int64_t bytes = bytes_of(r_.types[which]);
      llvm::Value* thread = c_.b.CreateMul(c_.thread_linear(bases), c_.i32(bytes));
      const std::int64_t constant = start + base[which] + ((static_cast<std::int64_t>(r) << bits) + way) * bytes;
      return c_.b.CreateAdd(thread, c_.i32(constant));
    };
    for (std::size_t r = 0; r < partials.size(); ++r) {
      for (std::size_t k = 0; k < partials[r].size(); ++k) store(offset(place, k, r, 0), partials[r][k], first);
    }
    scratch.barrier();
    for (std::size_t r = 0; r < partials.size(); ++r) {
      if (partials[r].empty()) continue;
      for (int way = 0; way < ways_read; ++way) {
        Partial p;
        for (std::size_t k = 0; k < r_.types.size(); ++k) p.push_back(load(offset(slot, k, r, way), r_.types[k]));
        lists[r].push_back(std::move(p));
      }
    }
    return lists;
  }

  // What `of_all_warps` gave for one register of the result, combined; in the same order with and without shuffles.
  template <class Shuffle>
  Partial combine_warps(std::vector<Partial> all, Shuffle shuffle) {
    for (std::size_t step = 1; step < all.size(); step *= 2) {
      for (std::size_t i = 0; i + step < all.size(); i += 2 * step) all[i] = r_.combine(all[i], all[i + step]);
    }
    if (all.empty()) return {};
    for (int i = 0; i < bits_of_warp_per_lane(); ++i) all[0] = with_lane(all[0], i, shuffle);
    return all[0];
  }

  template <class Store, class Load, class Shuffle>
  void across_warps(std::vector<Partial>& partials, SharedScratch& scratch, Store store, Load load, Shuffle shuffle) {
    auto lists = of_all_warps(partials, scratch, store, load);
    for (std::size_t r = 0; r < partials.size(); ++r) {
      partials[r] = combine_warps(std::move(lists[r]), shuffle);
    }
  }

 private:
  // A lane's result combined with that of the lane whose number differs in bit i.
  template <class Shuffle>
  Partial with_lane(const Partial& p, int i, Shuffle shuffle) {
    Partial other;
    for (llvm::Value* v : p) other.push_back(shuffle(v, c_.i32(std::int64_t{1} << i)));
    return r_.combine(p, other);
  }
  static std::int64_t bytes_of(llvm::Type* t) {
    return t->isIntegerTy(1) ? 1 : static_cast<std::int64_t>(t->getPrimitiveSizeInBits() / 8);
  }

  GpuContext& c_;
  const Layout& l_;
  const Reduction& r_;
  const Layout result_;
  std::map<const void*, std::size_t> met_;
  static constexpr int least_bits_to_shuffle = 3;  // from eight warps on
  static constexpr int accumulators = 4;           // independent chains in registers, for the latency of an addition
};

}  // namespace tileweave::codegen
