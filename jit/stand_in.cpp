// What runs a launch while its own kernel is still being compiled: the generic variant, or the CPU on copies.
// Part of the front door; see jit.h. Once the kernel is ready, the dsl's table of variants holds that one alone.
#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "tileweave/jit/ir/generic.h"
#include "tileweave/jit/jit.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/stream.h"

namespace tileweave::jit {
namespace {
using runtime::LoadedKernel;

struct ViewParam {
  std::size_t slot;  // of its base pointer
  int rank;
  std::int64_t element_bytes;
  bool is_written;
};

// Bytes of device memory that a launch may touch, and their copy, aligned as they are.
struct Range {
  static constexpr std::uint64_t alignment = 16;  // what std::vector's memory has
  std::uint64_t first, last;
  bool is_written;
  std::vector<std::byte> memory;

  void allocate() { memory.resize(static_cast<std::size_t>(last - first + alignment)); }
  std::byte* copy() { return memory.data() + first % alignment; }
};

// Runs a CUDA launch on the CPU: waits for the stream, copies what the views reach, runs, copies what was written back.
class CpuStandIn final : public LoadedKernel {
 public:
  CpuStandIn(const ir::Function& f, Kernel on_cpu, PendingKernel pending)
      : LoadedKernel(f.name), on_cpu_(std::move(on_cpu)), pending_(std::move(pending)) {
    std::size_t slot = 0;
    for (const ir::Param& p : f.params) {
      const ir::Type& t = p.value->type;
      if (t.is_view()) views_.push_back({slot, t.rank, dtype_bytes(t.elem), !t.is_const});
      slot += t.is_view() ? static_cast<std::size_t>(runtime::slots_of_view(t.rank)) : 1;
    }
  }

  void launch(runtime::StreamState& stream, const std::int64_t grid[3], const std::uint64_t* slots, int n,
              const Place& place) const override {
    if (pending_.is_ready() || !can_copy(slots)) return pending_.get()->launch(stream, grid, slots, n, place);
    std::vector<Range> ranges = ranges_of(slots);
    runtime::DeviceState& device = stream.device();
    for (Range& r : ranges) {
      r.allocate();
      const auto* source = reinterpret_cast<const std::byte*>(r.first);
      device.copy(stream, r.copy(), source, shape_of(r, true), place);
    }
    stream.synchronize(place);
    std::vector<std::uint64_t> moved(slots, slots + n);
    for (const ViewParam& v : views_) moved[v.slot] = place_in(ranges, slots[v.slot]);
    on_cpu_->launch(Device::cpu().stream().state(), grid, moved.data(), n, place);
    for (Range& r : ranges) {
      if (!r.is_written) continue;
      device.copy(stream, reinterpret_cast<std::byte*>(r.first), r.copy(), shape_of(r, false), place);
    }
    stream.synchronize(place);
  }

 private:
  static runtime::CopyShape shape_of(const Range& r, bool to_host) {
    runtime::CopyShape shape;
    shape.bytes = static_cast<std::int64_t>(r.last - r.first);
    shape.is_target_host = to_host;
    shape.is_source_host = !to_host;
    return shape;
  }

  struct Reach {
    std::int64_t low = 0, high = 0, elements = 1;  // offsets in elements, both ends included
  };
  static Reach reach_of(const ViewParam& v, const std::uint64_t* slots) {
    Reach r;
    for (int i = 0; i < v.rank; ++i) {
      const auto extent = static_cast<std::int64_t>(slots[v.slot + 1 + static_cast<std::size_t>(i)]);
      const auto stride = static_cast<std::int64_t>(slots[v.slot + 1 + static_cast<std::size_t>(v.rank + i)]);
      r.elements *= extent;
      (stride < 0 ? r.low : r.high) += (extent - 1) * stride;
    }
    return r;
  }

  // A written view with gaps would be copied back over what others may have written there meanwhile.
  bool can_copy(const std::uint64_t* slots) const {
    return std::ranges::all_of(views_, [&](const ViewParam& v) {
      const Reach r = reach_of(v, slots);
      return !v.is_written || r.elements == 0 || r.high - r.low + 1 == r.elements;
    });
  }

  // What the views reach; ranges that overlap are one, so that aliases stay aliases.
  std::vector<Range> ranges_of(const std::uint64_t* slots) const {
    std::vector<Range> all;
    for (const ViewParam& v : views_) {
      const Reach r = reach_of(v, slots);
      if (r.elements == 0) continue;
      const auto base = static_cast<std::int64_t>(slots[v.slot]);
      all.push_back({static_cast<std::uint64_t>(base + r.low * v.element_bytes),
                     static_cast<std::uint64_t>(base + (r.high + 1) * v.element_bytes),
                     v.is_written,
                     {}});
    }
    std::ranges::sort(all, {}, &Range::first);
    std::vector<Range> merged;
    for (Range& r : all) {
      if (merged.empty() || r.first >= merged.back().last) {
        merged.push_back(std::move(r));
      } else {
        merged.back().last = std::max(merged.back().last, r.last);
        merged.back().is_written = merged.back().is_written || r.is_written;
      }
    }
    return merged;
  }

  // Where the base pointer lies in the copies. It may point outside of what an empty view reaches: then it is unused.
  static std::uint64_t place_in(std::vector<Range>& ranges, std::uint64_t base) {
    for (Range& r : ranges) {
      if (base >= r.first && base < r.last) return reinterpret_cast<std::uintptr_t>(r.copy()) + (base - r.first);
    }
    return 0;
  }

  Kernel on_cpu_;
  PendingKernel pending_;
  std::vector<ViewParam> views_;
};

bool has_pointers(const ir::Function& f) {
  return std::ranges::any_of(f.params, [](const ir::Param& p) { return p.value->type.is_pointer(); });
}

std::atomic<int>& chosen() {
  static std::atomic<int> how{static_cast<int>(env().meanwhile)};
  return how;
}

}  // namespace

void set_meanwhile(Meanwhile how) { chosen() = static_cast<int>(how); }
Meanwhile meanwhile() { return static_cast<Meanwhile>(chosen().load(std::memory_order_relaxed)); }

Kernel stand_in(const ir::Function& recorded, const Device& device, const PendingKernel& pending, Meanwhile how) {
  // How far a pointer reaches nobody knows, so such kernels cannot run on copies.
  if (how == Meanwhile::cpu && device.kind() == DeviceKind::cuda && !has_pointers(recorded)) {
    // Copies are aligned anew and may be nearer to each other: nothing is assumed of them.
    Kernel on_cpu = get(ir::generic_variant(recorded), Device::cpu());
    return std::make_shared<CpuStandIn>(recorded, std::move(on_cpu), pending);
  }
  return get(ir::generic_variant(recorded), device);
}

}  // namespace tileweave::jit
