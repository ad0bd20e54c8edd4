// A hostile file system inside the worker: its own definitions of the calls the cache makes, which fail, delay or kill
// as the environment says. Linked into cache_worker_hostile, where they take the place of the C library's.
//   HOSTILE_FAIL=linkat:EPERM,renameat2:EINVAL   these calls always fail so
//   HOSTILE_KILL=7        SIGKILL just before the 7th of these calls (a write is killed half done)
//   HOSTILE_DELAY=linkat:2000   microseconds before the call
//   HOSTILE_COUNT=FILE    at exit, append how many calls there were and how many of them could have written something
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

std::atomic<long> calls{0}, write_type_calls{0};

long real(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  using Syscall = long (*)(long, ...);
  static const Syscall function = reinterpret_cast<Syscall>(::dlsym(RTLD_NEXT, "syscall"));
  return function(number, a, b, c, d, e, f);
}

// The value of `name` in "name:value,name:value".
std::string_view setting(const char* variable, std::string_view name) {
  const char* text = std::getenv(variable);
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::size_t colon = item.find(':');
    if (item.substr(0, colon) == name) return item.substr(colon + 1);
  }
  return {};
}

int error_of(std::string_view name) {
  constexpr struct {
    std::string_view name;
    int value;
  } table[] = {{"EPERM", EPERM},   {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EROFS", EROFS},    {"EACCES", EACCES},
               {"ENOSYS", ENOSYS}, {"EXDEV", EXDEV},   {"EMLINK", EMLINK}, {"EINVAL", EINVAL},  {"ENOLCK", ENOLCK},
               {"EMFILE", EMFILE}, {"ESTALE", ESTALE}, {"EDQUOT", EDQUOT}, {"ENOTSUP", ENOTSUP}};
  for (const auto& row : table) {
    if (row.name == name) return row.value;
  }
  std::fprintf(stderr, "unknown error name\n");
  std::abort();
}

// Whether this call is the one to die at.
bool is_last() {
  const char* text = std::getenv("HOSTILE_KILL");
  return ++calls == (text != nullptr ? std::atol(text) : -1);
}
[[noreturn]] void die() {
  ::raise(SIGKILL);
  std::abort();
}

// True if the call must fail; errno is set.
bool meets_fault(const char* name, bool writes) {
  if (writes) ++write_type_calls;
  if (is_last()) die();
  const std::string_view delay = setting("HOSTILE_DELAY", name);
  if (!delay.empty()) ::usleep(static_cast<useconds_t>(std::atol(std::string(delay).c_str())));
  const std::string_view error = setting("HOSTILE_FAIL", name);
  if (error.empty()) return false;
  errno = error_of(error);
  return true;
}

long address(const void* pointer) { return reinterpret_cast<long>(pointer); }
bool opens_for_writing(long flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0; }

struct CountWriter {
  ~CountWriter() {
    const char* path = std::getenv("HOSTILE_COUNT");
    if (path == nullptr) return;
    const std::string line = std::to_string(calls.load()) + " " + std::to_string(write_type_calls.load()) + "\n";
    const long fd = real(SYS_openat, AT_FDCWD, address(path), O_WRONLY | O_CREAT | O_APPEND, 0666);
    real(SYS_write, fd, address(line.data()), static_cast<long>(line.size()));
  }
} count_writer;

}  // namespace

extern "C" {

int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const long mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  if (meets_fault("openat", opens_for_writing(flags))) return -1;
  return static_cast<int>(real(SYS_openat, directory, address(path), flags, mode));
}

long syscall(long number, ...) noexcept {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (long& value : a) value = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_openat2) {
    const auto* how = reinterpret_cast<const struct open_how*>(a[2]);
    if (meets_fault("openat2", opens_for_writing(static_cast<long>(how->flags)))) return -1;
  } else if (number == SYS_renameat2) {
    if (meets_fault("renameat2", true)) return -1;
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t write(int file, const void* bytes, size_t size) {
  ++write_type_calls;
  if (is_last()) {
    real(SYS_write, file, address(bytes), static_cast<long>(size / 2));
    die();
  }
  const std::string_view error = setting("HOSTILE_FAIL", "write");
  if (!error.empty()) {
    errno = error_of(error);
    return -1;
  }
  return real(SYS_write, file, address(bytes), static_cast<long>(size));
}

ssize_t pread(int file, void* bytes, size_t size, off_t at) {
  if (meets_fault("pread", false)) return -1;
  return real(SYS_pread64, file, address(bytes), static_cast<long>(size), at);
}

int close(int file) {
  if (meets_fault("close", false)) {
    const int error = errno;
    real(SYS_close, file);
    errno = error;
    return -1;
  }
  return static_cast<int>(real(SYS_close, file));
}

int linkat(int from, const char* old_path, int to, const char* new_path, int flags) noexcept {
  if (meets_fault("linkat", true)) return -1;
  return static_cast<int>(real(SYS_linkat, from, address(old_path), to, address(new_path), flags));
}

int renameat(int from, const char* old_path, int to, const char* new_path) noexcept {
  if (meets_fault("renameat", true)) return -1;
  return static_cast<int>(real(SYS_renameat2, from, address(old_path), to, address(new_path), 0));
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  if (meets_fault("unlinkat", true)) return -1;
  return static_cast<int>(real(SYS_unlinkat, directory, address(path), flags));
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  if (meets_fault("mkdirat", true)) return -1;
  return static_cast<int>(real(SYS_mkdirat, directory, address(path), mode));
}

int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  if (command == F_OFD_SETLK && meets_fault("lock", false)) return -1;
  return static_cast<int>(real(SYS_fcntl, file, command, argument));
}

int futimens(int file, const struct timespec times[2]) noexcept {
  if (meets_fault("futimens", true)) return -1;
  return static_cast<int>(real(SYS_utimensat, file, 0, address(times), 0));
}
}
