// The host's tensor memory: see host_pool.h.
// Blocks of 1 MiB and more are mapped one by one, smaller ones come from malloc's aligned sister.
#include "tileweave/jit/runtime/host_pool.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <new>

namespace tileweave::runtime {
namespace {

constexpr std::int64_t large_bytes = std::int64_t{1} << 20, huge_page = std::int64_t{2} << 20;
// What the pool keeps at most, and the largest block it keeps at all.
constexpr std::int64_t max_kept_bytes = std::int64_t{1} << 30, max_block_kept = std::int64_t{256} << 20;

}  // namespace

HostPool& HostPool::instance() {
  static constinit Once<HostPool> once;
  return once.get([] { return new HostPool; });
}

std::int64_t HostPool::class_of(std::int64_t bytes) {
  if (bytes <= 64) return 64;
  const auto top = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
  const std::int64_t quarter = top / 4 > 64 ? top / 4 : 64;
  const std::int64_t step = bytes >= large_bytes && quarter < huge_page ? huge_page : quarter;
  if (bytes > INT64_MAX - step) return bytes;
  return (bytes + step - 1) / step * step;
}

std::byte* HostPool::allocate(std::int64_t bytes) noexcept {
  const std::int64_t size = class_of(bytes);
  {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(size);
    if (found != free_.end() && !found->second.empty()) {
      std::byte* base = found->second.back();
      found->second.pop_back();
      kept_bytes_ -= size;
      return base;
    }
  }
  std::byte* base = from_system(size);
  if (base == nullptr) {
    trim();
    base = from_system(size);
  }
  return base;
}

void HostPool::free(std::byte* base, std::int64_t bytes) noexcept {
  const std::int64_t size = class_of(bytes);
  if (size <= max_block_kept) {
    try {
      const std::lock_guard lock(mutex_);
      if (kept_bytes_ + size <= max_kept_bytes) {
        free_[size].push_back(base);
        kept_bytes_ += size;
        return;
      }
    } catch (const std::bad_alloc&) {  // no room to remember it: back to the system
    }
  }
  to_system(base, size);
}

void HostPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : free_) {
    for (std::byte* base : blocks) to_system(base, size);
  }
  free_.clear();
  kept_bytes_ = 0;
}

std::int64_t HostPool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

std::byte* HostPool::from_system(std::int64_t bytes) noexcept {
  if (bytes < large_bytes) return static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(bytes)));
  if (bytes > INT64_MAX - huge_page) return nullptr;
  // Map a huge page more, then give back what lies before and after the aligned block.
  const auto mapped = static_cast<std::size_t>(bytes + huge_page);
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(raw);
  const auto misplaced = reinterpret_cast<std::uintptr_t>(first) % static_cast<std::uintptr_t>(huge_page);
  std::byte* base = first + (misplaced == 0 ? 0 : static_cast<std::uintptr_t>(huge_page) - misplaced);
  if (base != first) munmap(first, static_cast<std::size_t>(base - first));
  if (std::byte* end = base + bytes; end != first + mapped) {
    munmap(end, static_cast<std::size_t>(first + mapped - end));
  }
  madvise(base, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return base;
}

void HostPool::to_system(std::byte* base, std::int64_t bytes) noexcept {
  if (bytes < large_bytes) {
    std::free(base);
  } else {
    munmap(base, static_cast<std::size_t>(bytes));
  }
}

}  // namespace tileweave::runtime
