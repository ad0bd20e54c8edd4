// Loads emulated kernels and launches them: what memory a launch may touch, how many blocks it has.
// Between the simt devices and the machine.
#include "tileweave/jit/runtime/simt_kernel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/abi.h"
#include "tileweave/jit/runtime/channel.h"
#include "tileweave/jit/runtime/elf_loader.h"
#include "tileweave/jit/runtime/grid.h"
#include "tileweave/jit/runtime/simt_about.h"
#include "tileweave/jit/runtime/simt_machine.h"
#include "tileweave/jit/runtime/simt_tensor_map.h"
#include "tileweave/jit/runtime/tensor_map.h"

namespace tileweave::runtime {
namespace {

// The bytes from the lowest to the highest element that the view reaches; strides may be negative.
simt::GlobalRange range_of(const simt::About::View& v, const std::uint64_t* slots) {
  const std::uint64_t* extents = slots + v.slot + 1;
  const std::uint64_t* strides = extents + v.rank;
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < v.rank; ++i) {
    const auto extent = static_cast<std::int64_t>(extents[i]);
    if (extent <= 0) return {};
    const std::int64_t reach = (extent - 1) * static_cast<std::int64_t>(strides[i]);
    (reach < 0 ? low : high) += reach;
  }
  const std::uint64_t base = slots[v.slot];
  return {base + static_cast<std::uint64_t>(low * v.element_bytes),
          base + static_cast<std::uint64_t>((high + 1) * v.element_bytes), v.slot};
}

simt::TensorMap map_of(const TensorMapPlan& plan, const std::uint64_t* slots) {
  const TensorMapFacts facts = tensor_map_facts(plan, slots);
  simt::TensorMap map;
  map.base = facts.base;
  map.rank = static_cast<std::uint32_t>(plan.rank);
  map.element_bytes = static_cast<std::uint32_t>(plan.element_bytes);
  map.swizzle_bytes = static_cast<std::uint32_t>(plan.swizzle_bytes);
  for (std::size_t i = 0; i < facts.extents.size(); ++i) {
    map.extents[i] = facts.extents[i];
    map.strides[i] = facts.strides[i];
    map.box[i] = static_cast<std::uint32_t>(plan.extents[i]);
  }
  return map;
}

// As if the device had two multiprocessors: blocks of persistent kernels do several programs.
constexpr std::int64_t blocks_of_persistent = 2;

class SimtKernel final : public LoadedKernel {
 public:
  SimtKernel(const Binary& binary, const std::string& name, const Place& place, std::uint64_t seed)
      : LoadedKernel(name),
        object_(LoadedObject::load(binary.code, simt::simt_symbols())),
        threads_(binary.threads_per_block),
        cluster_(binary.cluster),
        smem_bytes_(binary.smem_bytes),
        texts_(channel_texts(binary.meta)),
        maps_(tensor_map_plans(binary.meta)),
        has_byte_atomics_(binary.meta.find("byte_atomics=1") != std::string::npos),
        is_persistent_(binary.meta.find("persistent=1") != std::string::npos),
        seed_(seed) {
    entry_ = reinterpret_cast<simt::ThreadEntry>(find(binary.entry + ".simt", place));
    about_ = simt::parse_about(reinterpret_cast<const char* (*)()>(find(binary.entry + ".about", place))());
  }

  void launch(StreamState&, const std::int64_t grid[3], const std::uint64_t* slots, int n,
              const Place& place) const override {
    const GridPlan plan = plan_grid(grid, cluster_, {}, place);
    if (plan.programs == 0) return;
    std::vector<std::uint64_t> all(slots, slots + n);
    for (int i = 0; i < grid_slots; ++i) all.push_back(static_cast<std::uint64_t>(grid[i]));
    std::vector<std::uint64_t> channel_words(texts_.empty() ? 0 : channel::bytes / 8);
    const std::span<const std::byte> buffer = std::as_bytes(std::span(channel_words));
    if (!texts_.empty()) all.push_back(reinterpret_cast<std::uint64_t>(buffer.data()));
    std::vector<simt::TensorMap> maps;
    maps.reserve(maps_.size());  // the kernel gets their addresses
    for (const TensorMapPlan& plan : maps_) {
      maps.push_back(map_of(plan, slots));
      all.push_back(reinterpret_cast<std::uint64_t>(&maps.back()));
    }
    std::vector<simt::GlobalRange> ranges;
    for (const simt::About::View& v : about_.views) {
      if (v.element_bytes == 0) ranges.push_back({0, UINT64_MAX, v.slot});
      if (v.element_bytes > 0 && v.slot + slots_of_view(v.rank) <= n) ranges.push_back(range_of(v, slots));
    }
    if (!texts_.empty()) {
      const auto begin = reinterpret_cast<std::uint64_t>(buffer.data());
      ranges.push_back({begin, begin + buffer.size(), -1});
    }
    for (simt::GlobalRange& r : ranges) {
      // A byte is updated with the aligned word around it.
      if (!has_byte_atomics_ || r.begin >= r.end) continue;
      r.begin &= ~std::uint64_t{3};
      if (r.end < UINT64_MAX - 3) r.end = (r.end + 3) & ~std::uint64_t{3};
    }
    ranges = simt::tidy(std::move(ranges));
    simt::Grid g;
    g.kernel = name();
    g.entry = entry_;
    g.slots = all.data();
    g.blocks = static_cast<std::int64_t>(plan.x) * plan.y;
    if (is_persistent_) g.blocks = std::min(g.blocks, blocks_of_persistent);
    g.threads = threads_;
    g.cluster = cluster_;
    g.smem_bytes = smem_bytes_;
    g.seed = seed_ != 0 ? seed_ : env().simt_seed;
    g.ranges = ranges;
    g.about = &about_;
    simt::run_grid(g, place);
    if (texts_.empty()) return;
    if (const auto failure = deliver(name(), texts_, buffer)) {
      throw_launch_error(failure->place.known() ? failure->place : place, failure->message, {},
                         LaunchError::Kind::fault);
    }
  }

 private:
  void* find(const std::string& symbol, const Place& place) const {
    void* f = object_->function(symbol);
    if (f == nullptr) {
      throw_launch_error(place, std::string("kernel '") + name() + "': its object has no function '" + symbol + "'",
                         "the stored object is damaged or not ours; clear the cache and let it be compiled again");
    }
    return f;
  }

  std::unique_ptr<LoadedObject> object_;
  simt::ThreadEntry entry_ = nullptr;
  simt::About about_;
  int threads_, cluster_;
  std::int64_t smem_bytes_;
  std::vector<ChannelText> texts_;  // empty: the kernel has no channel
  std::vector<TensorMapPlan> maps_;
  bool has_byte_atomics_, is_persistent_;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const LoadedKernel> load_simt_kernel(const Binary& binary, const std::string& name, const Place& place,
                                                     std::uint64_t seed) {
  if (binary.kind != Binary::Kind::elf_object) {
    throw_launch_error(place, "kernel '" + name + "': the SIMT emulation runs host objects only");
  }
  return std::make_shared<const SimtKernel>(binary, name, place, seed);
}

}  // namespace tileweave::runtime
