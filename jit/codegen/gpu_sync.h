// Barriers of the GPU lowering: who may touch shared scratch when, and which global accesses of one thread must wait
// for those of another. A program is sequential to its user; here its threads are kept from showing otherwise.
#pragma once

#include <vector>

#include "tileweave/jit/codegen/gpu_context.h"

namespace tileweave::codegen {

// Shared memory for exchanges between the threads of a block: written, a barrier, read. Each use gets bytes of its own
// while they last, so that one barrier does; when they are used up, a barrier before the next use makes them free
// again.
class SharedScratch {
 public:
  explicit SharedScratch(GpuContext& c) : c_(c) {}

  // The byte offset of `bytes` bytes, aligned, that no thread reads any more.
  std::int64_t allocate(std::int64_t bytes, std::int64_t alignment = 16);
  // Bytes that are kept until they are given back, last first: exchanges go behind them. Both ends need a barrier
  // before the bytes are used by others; reserve puts it, after release the next allocate does.
  std::int64_t reserve(std::int64_t bytes, std::int64_t alignment);
  void release(std::int64_t offset);
  // Between the writes and the reads of an exchange.
  void barrier();
  // Code that runs again, or that may have been left out, comes next: what is free is not known any more.
  void forget();
  // Another version of the kernel: a program runs only one.
  void restart() {
    next_ = floor_;
    unknown_ = false;
  }
  std::int64_t bytes_used() const { return high_water_; }

 private:
  GpuContext& c_;
  std::int64_t floor_ = 0, next_ = 0, high_water_ = 0;
  bool unknown_ = false;
};

// One access to global memory, as far as order is concerned.
struct GlobalAccess {
  const ir::Value* view = nullptr;  // null: through pointers, anywhere
  bool writes = false;
  bool may_alias = true;                  // with accesses to other views
  std::vector<const ir::Value*> offsets;  // of the block
  const ir::Layout* layout = nullptr;     // who holds which element
  bool this_pass = true;                  // false: of an earlier pass through a loop
};

// Remembers the accesses since the last barrier and puts a barrier where a later one could meet them in another thread.
class GlobalOrder {
 public:
  void before(const GlobalAccess& access, SharedScratch& scratch);
  bool conflicts(const GlobalAccess& access) const;
  // What a loop's or a branch's body may have left pending.
  void assume(std::vector<GlobalAccess> accesses);
  void clear() { pending_.clear(); }

 private:
  std::vector<GlobalAccess> pending_;
};

}  // namespace tileweave::codegen
