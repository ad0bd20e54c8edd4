// Temporary name, write, fsync, rename, fsync of the directory. See durable_file.h.
#include "tileweave/cache/durable_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tileweave/jit/base/error.h"

namespace tileweave::cache {

DurableFile::DurableFile(const std::string& path) : path_(path), temporary_(path + "." + random_name(8) + ".tmp") {
  // The rename would replace a device, and what it stands for, for every process of the machine.
  struct stat there{};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    throw_cache_error("cannot write " + path + ": it is not a regular file", "name a file");
  }
  file_ = open_at(AT_FDCWD, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (!file_) fail(errno);
}

DurableFile::~DurableFile() {
  if (file_) ::unlink(temporary_.c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  if (const int error = write_whole(file_.get(), bytes)) fail(error);
}

void DurableFile::rewrite_start(std::span<const std::byte> bytes) {
  if (::lseek(file_.get(), 0, SEEK_SET) != 0) fail(errno);
  write(bytes);
}

void DurableFile::keep() {
  if (::fsync(file_.get()) != 0) fail(errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  if (const int error = file_.close()) fail(error);
  const std::size_t slash = path_.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const File directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) (void)::fsync(directory.get());  // the content is safe; at worst the old name survives a power cut
}

void DurableFile::fail(int error) {
  throw_cache_error("cannot write " + path_ + ": " + error_text(error), "check the directory's space and rights");
}

}  // namespace tileweave::cache
