// System calls on files, by descriptor and relative to directories that were checked.
// See file.h.
#include "tileweave/cache/file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/hash.h"

namespace tileweave::cache {
namespace {

template <class Call>
auto retried(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// Set once the kernel (or a seccomp filter) has refused openat2.
std::atomic<bool> lacks_openat2{false};

}  // namespace

int File::close() {
  if (descriptor_ < 0) return 0;
  // On Linux the descriptor is gone even when close says EINTR; trying again could close another thread's file.
  const int result = ::close(std::exchange(descriptor_, -1));
  return result == 0 || errno == EINTR ? 0 : errno;
}

int make_directory(int parent, const char* path, mode_t mode) {
  if (::mkdirat(parent, path, mode & 0777) != 0) return errno;
  if ((mode & S_IWGRP) == 0) return 0;
  // For a group: the umask has taken its write bit. The bits above are the file system's to inherit.
  const File made = open_at(parent, path, O_RDONLY | O_DIRECTORY);
  return made && ::fchmod(made.get(), mode) == 0 ? 0 : errno;
}

File open_at(int directory, const char* path, int flags, mode_t mode) {
  return File(retried([&] { return ::openat(directory, path, flags | O_CLOEXEC | O_NOFOLLOW, mode); }));
}

File open_beneath(int directory, const char* path, int flags, mode_t mode) {
  if (!lacks_openat2.load(std::memory_order_relaxed)) {
    struct open_how how = {};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
    how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const long fd = retried([&] { return ::syscall(SYS_openat2, directory, path, &how, sizeof(how)); });
    if (fd >= 0) return File(static_cast<int>(fd));
    if (errno != ENOSYS && errno != EPERM && errno != E2BIG) return File();
    // EPERM may be the file system's own answer; then the plain call says the same.
    if (errno == ENOSYS) lacks_openat2.store(true, std::memory_order_relaxed);
  }
  return open_at(directory, path, flags, mode);
}

int read_whole(int descriptor, std::span<std::byte> bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(at)); });
    if (n < 0) return errno;
    if (n == 0) return file_too_short;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
  return 0;
}

int write_whole(int descriptor, std::span<const std::byte> bytes) {
  // Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, which ends a program that has not asked otherwise: do not go there.
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes.size() > limit.rlim_cur) {
    return EFBIG;
  }
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

std::string random_name(std::size_t bytes) {
  std::vector<std::byte> random(bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = retried([&] { return ::getrandom(random.data() + done, bytes - done, 0); });
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (done < bytes) {
    // No kernel randomness: unique enough, since O_EXCL refuses a name that exists.
    static std::atomic<std::uint64_t> count{0};
    std::vector<std::byte> seed;
    ByteWriter out(seed);
    out.u64(static_cast<std::uint64_t>(::getpid()));
    out.u64(count.fetch_add(1));
    return (hash128(seed).hex() + hash128(seed).hex()).substr(0, bytes * 2);
  }
  return hex_of(random);
}

std::string error_text(int error) { return std::generic_category().message(error); }

bool is_unchanged(const struct stat& before, const struct stat& now) {
  return before.st_dev == now.st_dev && before.st_ino == now.st_ino && before.st_size == now.st_size &&
         before.st_mtim.tv_sec == now.st_mtim.tv_sec && before.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

}  // namespace tileweave::cache
