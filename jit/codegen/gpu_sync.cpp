// Allocation of shared scratch and placement of barriers.
// Called by conversions, reductions, dots and memory accesses while they are lowered.
#include "tileweave/jit/codegen/gpu_sync.h"

#include <algorithm>

namespace tileweave::codegen {
namespace {

// Small exchanges share this much before a barrier recycles it.
constexpr std::int64_t pool_bytes = 16 * 1024;

// Free lanes and warps hold copies, of which only one is written: then a reader is not the writer.
bool has_copies(const ir::Layout& l) {
  return l.free_mask(ir::Place4::lane) != 0 || l.free_mask(ir::Place4::warp) != 0;
}

bool same_elements_in_same_threads(const GlobalAccess& a, const GlobalAccess& b) {
  return a.this_pass && b.this_pass && a.view != nullptr && a.view == b.view && a.offsets == b.offsets &&
         a.layout != nullptr && b.layout != nullptr && *a.layout == *b.layout && !has_copies(*a.layout);
}

bool conflict(const GlobalAccess& a, const GlobalAccess& b) {
  if (!a.writes && !b.writes) return false;
  if (same_elements_in_same_threads(a, b)) return false;
  if (a.view == nullptr || b.view == nullptr || a.view == b.view) return true;
  return a.may_alias && b.may_alias;
}

}  // namespace

std::int64_t SharedScratch::allocate(std::int64_t bytes, std::int64_t alignment) {
  const auto aligned = [&](std::int64_t at) { return (at + alignment - 1) / alignment * alignment; };
  bytes = (bytes + 15) / 16 * 16;
  if (unknown_ || (next_ > floor_ && aligned(next_) + bytes > floor_ + pool_bytes)) {
    barrier();
    restart();
  }
  const std::int64_t offset = aligned(next_);
  next_ = offset + bytes;
  high_water_ = std::max(high_water_, next_);
  return offset;
}

std::int64_t SharedScratch::reserve(std::int64_t bytes, std::int64_t alignment) {
  if (unknown_ || next_ > floor_) barrier();
  const std::int64_t offset = (floor_ + alignment - 1) / alignment * alignment;
  floor_ = offset + bytes;
  high_water_ = std::max(high_water_, floor_);
  restart();
  return offset;
}

void SharedScratch::release(std::int64_t offset) {
  floor_ = next_ = offset;
  unknown_ = true;
}

void SharedScratch::barrier() {
  if (c_.producer_warps > 0) {
    c_.call(PrimitiveId::named_barrier, {c_.i32(1), c_.i32(32 * c_.warps), c_.site()});
    return;
  }
  c_.call(c_.warps == 1 ? PrimitiveId::warp_barrier : PrimitiveId::block_barrier, {c_.site()});
}

void SharedScratch::forget() { unknown_ = true; }

bool GlobalOrder::conflicts(const GlobalAccess& access) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const GlobalAccess& p) { return conflict(p, access); });
}

void GlobalOrder::before(const GlobalAccess& access, SharedScratch& scratch) {
  if (conflicts(access)) {
    scratch.barrier();
    pending_.clear();
  }
  pending_.push_back(access);
}

void GlobalOrder::assume(std::vector<GlobalAccess> accesses) {
  for (GlobalAccess& a : accesses) {
    a.this_pass = false;
    pending_.push_back(std::move(a));
  }
}

}  // namespace tileweave::codegen
