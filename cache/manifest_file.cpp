// Manifests as files: a process's own, appended record by record, and merged ones, written whole.
// See manifest.h.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "tileweave/cache/durable_file.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {

Manifest read_manifest(const std::string& path) {
  const std::string help = "give a .rec file that TILEWEAVE_RECORD or `tileweave merge` wrote";
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!file || ::fstat(file.get(), &info) != 0)
    throw_cache_error("cannot read " + path + ": " + error_text(errno), help);
  if (!S_ISREG(info.st_mode)) throw_cache_error(path + " is not a regular file", help);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > most_manifest_bytes) throw_cache_error(path + " is too large for a manifest", help);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (const int error = read_whole(file.get(), bytes)) {
    throw_cache_error("cannot read " + path + ": " + (error == file_too_short ? "it shrinks" : error_text(error)),
                      help);
  }
  std::string why;
  auto manifest = parse_manifest(bytes, why);
  if (!manifest) throw_cache_error(path + " " + why, help);
  return std::move(*manifest);
}

void write_manifest(const std::string& path, std::span<const Record> records) {
  DurableFile out(path);
  out.write(manifest_header());
  for (const Record& r : records) {
    const auto frame = encode_record(r);
    if (!frame) throw_cache_error("the record of kernel '" + r.kernel_name + "' is too large for a manifest");
    out.write(*frame);
  }
  out.keep();
}

int ManifestWriter::open() {
  const int made = make_directory(AT_FDCWD, directory_.c_str(), 0700);
  if (made != 0 && made != EEXIST && made != EROFS) return made;
  path_ = directory_ + "/" + random_name(16) + ".rec";
  file_ = open_at(AT_FDCWD, path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600);
  if (!file_) return errno;
  return write_whole(file_.get(), manifest_header());
}

int ManifestWriter::append(const Record& record) {
  if (failed_) return 0;
  const auto frame = encode_record(record);
  if (!frame) return EFBIG;
  int error = file_ ? 0 : open();
  if (error == 0) error = write_whole(file_.get(), *frame);
  failed_ = error != 0;
  return error;
}

}  // namespace tileweave::cache
