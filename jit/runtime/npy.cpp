// The .npy format (NumPy Enhancement Proposal 1; versions 2 and 3 of numpy.lib.format): reading with care, writing
// whole. At the edge of the flow, over AnyTensor.
#include "tileweave/jit/runtime/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/npy_header.h"
#include "tileweave/jit/runtime/tensor_math.h"

namespace tileweave::runtime {
namespace {

class File {
 public:
  File(const std::string& path, int flags, mode_t mode = 0666) : fd_(open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const { return fd_ >= 0; }
  // Fewer than asked for: the file ends, or errno is set.
  std::int64_t read_some(std::byte* to, std::int64_t bytes) {
    std::int64_t done = 0;
    while (done < bytes) {
      const ssize_t n = ::read(fd_, to + done, static_cast<std::size_t>(std::min(bytes - done, max_step)));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += n;
    }
    return done;
  }
  bool write_all(const std::byte* from, std::int64_t bytes) {
    for (std::int64_t done = 0; done < bytes;) {
      const ssize_t n = ::write(fd_, from + done, static_cast<std::size_t>(std::min(bytes - done, max_step)));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += n;
    }
    return true;
  }
  std::int64_t size() const {
    struct stat s = {};
    return fstat(fd_, &s) == 0 && S_ISREG(s.st_mode) ? s.st_size : -1;
  }
  bool close_now() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  static constexpr std::int64_t max_step = 1 << 30;
  int fd_;
};

[[noreturn]] void fail_on(const std::string& operation, const std::string& path, const std::string& why,
                          const Place& place) {
  throw_launch_error(place, operation + " '" + path + "': " + why);
}

void swap_bytes(std::byte* base, std::int64_t elements, int width) {
  for (std::int64_t i = 0; i < elements; ++i) std::reverse(base + i * width, base + (i + 1) * width);
}

// The header's text, after the magic number, the version and the length.
std::string read_header(File& file, const std::string& path, const Place& place) {
  const auto fail = [&](const std::string& why) { fail_on("load_npy", path, why, place); };
  std::byte start[12] = {};
  if (file.read_some(start, 8) != 8 || std::memcmp(start, "\x93NUMPY", 6) != 0) fail("it is not a .npy file");
  const int version = std::to_integer<int>(start[6]);
  if (version < 1 || version > 3) fail("format version " + std::to_string(version) + " is not known");
  const int length_bytes = version == 1 ? 2 : 4;
  if (file.read_some(start + 8, length_bytes) != length_bytes) fail("the file ends in its header");
  std::uint32_t length = 0;
  for (int i = 0; i < length_bytes; ++i) length |= std::to_integer<std::uint32_t>(start[8 + i]) << (8 * i);
  if (length > npy::max_header_bytes) fail("a header of " + std::to_string(length) + " bytes is too long");
  std::string text(length, '\0');
  if (file.read_some(reinterpret_cast<std::byte*>(text.data()), length) != length) fail("the file ends in its header");
  return text;
}

// NumPy writes these so; its readers see bf16 and f8 as plain bits.
std::string descr_of(Dtype t) {
  if (is_bool(t)) return "|b1";
  const std::string bytes = std::to_string(dtype_bytes(t));
  if (t == Dtype::bf16 || t == Dtype::f8e4m3 || t == Dtype::f8e5m2) return (bytes == "1" ? "|u" : "<u") + bytes;
  return (bytes == "1" ? "|" : "<") + std::string(is_float(t) ? "f" : is_signed(t) ? "i" : "u") + bytes;
}

}  // namespace

AnyTensor load_npy(const std::string& path, const Device& device, Memory memory, const Place& place) {
  File file(path, O_RDONLY);
  if (!file.is_open()) fail_on("load_npy", path, std::strerror(errno), place);
  const npy::Header h = npy::parse_header(read_header(file, path, place));
  if (!h.wrong.empty()) fail_on("load_npy", path, h.wrong, place);
  // Elements of a Fortran-order file are the row-major ones of the reversed axes.
  Dims stored = h.extents;
  if (h.is_fortran_order) std::reverse(&stored[0], &stored[0] + stored.rank());
  const std::int64_t bytes = checked_size(stored, h.dtype, place) * dtype_bytes(h.dtype);
  const std::int64_t file_bytes = file.size();
  if (file_bytes >= 0 && bytes > file_bytes) {  // before memory is asked for
    fail_on("load_npy", path, "it has too few bytes for " + to_string(h.extents), place);
  }
  AnyTensor t = AnyTensor::empty(Device::cpu(), h.dtype, stored, Memory::device, place);
  auto* base = static_cast<std::byte*>(t.data());
  if (file.read_some(base, bytes) != bytes) {
    fail_on("load_npy", path, "it has too few bytes for " + to_string(h.extents), place);
  }
  if (h.is_big_endian != (std::endian::native == std::endian::big)) swap_bytes(base, t.size(), dtype_bytes(h.dtype));
  if (h.dtype == Dtype::boolean) {
    for (std::int64_t i = 0; i < bytes; ++i) base[i] = base[i] != std::byte{0} ? std::byte{1} : std::byte{0};
  }
  if (h.is_fortran_order && t.rank() > 1) {
    Dims axes;
    for (int i = t.rank() - 1; i >= 0; --i) axes.push_back(i);
    t = t.permute(axes, place).contiguous(place);
  }
  if (device == Device::cpu() && memory == Memory::device) return t;
  AnyTensor moved = AnyTensor::empty(device, t.dtype(), t.extents(), memory, place);
  moved.copy_from(t, nullptr, place);
  return moved;
}

void save_npy(const std::string& path, const AnyTensor& tensor, const Place& place) {
  require_defined(tensor, "save_npy", place);
  const std::vector<std::byte> values = tensor.to_host(place);
  const std::string header = npy::make_header(descr_of(tensor.dtype()), tensor.extents());
  static std::atomic<int> turn{0};  // two threads may save to one path
  const std::string temporary = path + ".tmp" + std::to_string(getpid()) + "." + std::to_string(++turn);
  const auto fail = [&](bool remove) {
    const std::string why = std::strerror(errno);
    if (remove) unlink(temporary.c_str());
    fail_on("save_npy", path, why, place);
  };
  File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (!file.is_open()) fail(false);
  const bool written =
      file.write_all(reinterpret_cast<const std::byte*>(header.data()), static_cast<std::int64_t>(header.size())) &&
      file.write_all(values.data(), static_cast<std::int64_t>(values.size()));
  if (!written || !file.close_now()) fail(true);
  if (rename(temporary.c_str(), path.c_str()) != 0) fail(true);
}

}  // namespace tileweave::runtime
