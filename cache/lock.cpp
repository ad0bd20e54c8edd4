// Open-file-description locks on single bytes. Plain POSIX locks would vanish as soon as anybody in the process closed
// another descriptor of the file.
// See lock.h.
#include "tileweave/cache/lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "tileweave/cache/fork.h"
#include "tileweave/jit/base/fork.h"

namespace tileweave::cache {

// All open lock files of the process. A forked child shares the descriptions and would keep its parent's locks alive:
// it closes them at once.
class LockRegistry final : ForkAware {
 public:
  static LockRegistry& instance() {
    static constinit Once<LockRegistry> once;
    return once.get([] { return new LockRegistry; });
  }

  void open(LockFile& file, int directory, mode_t mode) {
    const std::lock_guard lock(mutex_);
    File opened = open_at(directory, "locks", O_RDWR | O_CREAT | O_NONBLOCK, mode);
    struct stat info = {};
    if (!opened || ::fstat(opened.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    // The umask may have taken the group's bits from a file that we made.
    if ((mode & S_IWGRP) != 0 && (info.st_mode & S_IWGRP) == 0) (void)::fchmod(opened.get(), mode);
    file.descriptor_ = opened.release();
    files_.insert(&file);
  }
  void close(LockFile& file) {
    const std::lock_guard lock(mutex_);
    files_.erase(&file);
    if (file.descriptor_ >= 0) ::close(std::exchange(file.descriptor_, -1));
  }

 private:
  LockRegistry() { watch_forks(*this); }
  void before_fork() override { mutex_.lock(); }
  void after_fork(bool is_child) override {
    if (is_child) {
      for (LockFile* file : files_) ::close(std::exchange(file->descriptor_, -1));
      files_.clear();
    }
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::set<LockFile*> files_;
};

namespace {
int set_lock(int descriptor, short kind, std::uint64_t byte) {
  struct flock request = {};
  request.l_type = kind;
  request.l_whence = SEEK_SET;
  request.l_start = static_cast<off_t>(byte);
  request.l_len = 1;
  while (true) {
    if (::fcntl(descriptor, F_OFD_SETLK, &request) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}
}  // namespace

std::uint64_t lock_byte_of(const Hash128& address) { return address.low & (sweep_byte - 1); }

LockFile::LockFile(int directory, mode_t mode) { LockRegistry::instance().open(*this, directory, mode); }
LockFile::~LockFile() { LockRegistry::instance().close(*this); }

LockFile::Outcome LockFile::try_lock(std::uint64_t byte) {
  if (descriptor_ < 0) return Outcome::failed;
  const int error = set_lock(descriptor_, F_WRLCK, byte);
  if (error == 0) return Outcome::held;
  // Linux says EAGAIN for a lock that somebody holds. EACCES would be a policy's refusal: no waiting ends that.
  return error == EAGAIN ? Outcome::busy : Outcome::failed;
}

void LockFile::prepare() { LockRegistry::instance(); }

void LockFile::unlock() { LockRegistry::instance().close(*this); }

}  // namespace tileweave::cache
