// Host memory for tensors: size classes with free lists; large blocks from the system, untouched, on huge pages.
// Under Storage for the host devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tileweave/jit/base/fork.h"

namespace tileweave::runtime {

class HostPool {
 public:
  static HostPool& instance();  // lives for ever

  // At least 64-byte aligned (2 MiB for large blocks); null without memory. Large blocks are not touched: their pages
  // come when they are first written.
  std::byte* allocate(std::int64_t bytes) noexcept;
  void free(std::byte* base, std::int64_t bytes) noexcept;
  void trim() noexcept;
  std::int64_t kept_bytes() const;

  // The size that a request really takes: at most a quarter more.
  static std::int64_t class_of(std::int64_t bytes);

 private:
  HostPool() = default;
  static std::byte* from_system(std::int64_t bytes) noexcept;
  static void to_system(std::byte* base, std::int64_t bytes) noexcept;

  mutable LeafMutex mutex_;
  std::map<std::int64_t, std::vector<std::byte*>> free_;  // by class
  std::int64_t kept_bytes_ = 0;
};

}  // namespace tileweave::runtime
