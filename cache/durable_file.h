// A file that is written beside its target and takes its place whole and durable, or not at all.
// Used for packs and manifests; entries in a root have a protocol of their own (disk.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tileweave/cache/file.h"

namespace tileweave::cache {

// Every function throws CacheError where the file system refuses; the old file stays then.
class DurableFile {
 public:
  explicit DurableFile(const std::string& path);
  ~DurableFile();  // removes what was not kept
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void rewrite_start(std::span<const std::byte> bytes);
  void keep();

 private:
  [[noreturn]] void fail(int error);
  std::string path_, temporary_;
  File file_;
};

}  // namespace tileweave::cache
