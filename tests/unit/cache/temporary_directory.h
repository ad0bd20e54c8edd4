// A private directory that a test fills and that goes with it, and small helpers on files.
// For the cache's tests only; paths are absolute.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tileweave/cache/entry.h"
#include "tileweave/cache/key.h"

namespace tileweave::cache {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = "/tmp/tileweave_cache_test_XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// All regular files below, sorted.
inline std::vector<std::string> files_below(const std::string& path) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& f : std::filesystem::recursive_directory_iterator(path, ignored)) {
    if (f.is_regular_file() && !f.is_symlink()) out.push_back(f.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}
inline std::vector<std::string> entries_below(const std::string& path) {
  std::vector<std::string> out;
  for (const std::string& f : files_below(path)) {
    if (f.ends_with(".entry")) out.push_back(f);
  }
  return out;
}

inline Key test_key(std::uint64_t n, const std::string& kernel = "kernel") {
  return KeyWriter({"codegen", "19", "sm_80", "ptx", "none"}).natural("n", n).finish(kernel);
}
inline Entry test_entry(std::uint64_t n, std::size_t bytes = 100, const std::string& kernel = "kernel") {
  Entry e{kernel, "meta " + std::to_string(n), {}};
  for (std::size_t i = 0; i < bytes; ++i) e.payload.push_back(static_cast<std::byte>(i * 31 + n * 7));
  return e;
}

}  // namespace tileweave::cache
