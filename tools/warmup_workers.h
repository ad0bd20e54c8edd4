// Child processes that compile records: whatever a record does to the compiler, it costs that record alone.
// Used by `tileweave warmup`; the parent never compiles and never loads LLVM.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tileweave/cache/entry.h"
#include "tileweave/cache/key.h"
#include "tileweave/cache/manifest.h"

namespace tileweave::tools {

// One record for one target.
struct WarmupItem {
  const cache::Record* record;
  std::string target;
};

struct WarmupLimits {
  int processes = 1;
  std::chrono::seconds time{60};                        // per item
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  // of address space, per item, beyond what a child begins with
};

// Called in the parent as items end, in whatever order: exactly one of the two for each item.
struct WarmupSink {
  std::function<void(std::size_t item, cache::Key key, cache::Entry entry)> done;
  std::function<void(std::size_t item, std::string why)> failed;
};

// Throws InternalError where no child can be started at all.
void compile_in_children(const std::vector<WarmupItem>& items, const WarmupLimits& limits, const WarmupSink& sink);

}  // namespace tileweave::tools
