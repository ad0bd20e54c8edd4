// File descriptors that close themselves, and the few system calls the cache makes, with EINTR handled.
// Under every store. Nothing here throws; failures come back as errno values.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace tileweave::cache {

class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }
  ~File() { close(); }

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  int close();  // 0 or the errno: for a file that was written, a failing close is a failing write

 private:
  int descriptor_ = -1;
};

// Makes a directory whose mode does not depend on the umask. 0 or an errno; EEXIST if something has the name.
int make_directory(int parent, const char* path, mode_t mode);

// openat with O_CLOEXEC and O_NOFOLLOW. On failure the file is empty and errno says why.
File open_at(int directory, const char* path, int flags, mode_t mode = 0);
// As open_at, and no component of `path` may be a link or lead out of `directory` (where the kernel can promise that).
File open_beneath(int directory, const char* path, int flags, mode_t mode = 0);

// Fills `bytes` from offset `at` of the file by pread into private memory: a mapping could be cut short under our feet
// and raise SIGBUS. 0, an errno, or `file_too_short`.
constexpr int file_too_short = -1;
int read_whole(int descriptor, std::span<std::byte> bytes, std::uint64_t at = 0);

// 0 or an errno. Never raises SIGXFSZ: a file-size limit that is in the way is EFBIG.
int write_whole(int descriptor, std::span<const std::byte> bytes);

// `bytes` random bytes from the kernel as hexadecimal text; never fails.
std::string random_name(std::size_t bytes);

// "no space left on device" and the like.
std::string error_text(int error);

// Same file with the same content, as far as metadata can tell.
bool is_unchanged(const struct stat& before, const struct stat& now);

}  // namespace tileweave::cache
