// Manifests: what a run really used, as portable records without targets or machine code. A record is a kernel's tile
// IR, whose head holds the facts, constants, options and tuning of one variant.
// Written by recording processes (jit/recording.h), joined by `tileweave merge`, compiled by `tileweave warmup`.
//
// file: magic[8], then frames: payload size u32 | CRC-32C u32 over size and payload | payload
// payload: name size u32 | name | IR size u32 | IR text
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/cache/file.h"

namespace tileweave::cache {

struct Record {
  std::string kernel_name;
  std::string ir;  // what ir::to_text writes; with places only for debug and checked builds, whose code has them

  friend auto operator<=>(const Record&, const Record&) = default;
};

// Bounds what a hostile file can cost.
constexpr std::uint64_t most_record_bytes = std::uint64_t{16} << 20;
constexpr std::uint64_t most_manifest_bytes = std::uint64_t{1} << 30;

// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

std::vector<std::byte> manifest_header();
// One frame. Nothing where the record is larger than the limit.
std::optional<std::vector<std::byte>> encode_record(const Record& record);

struct Manifest {
  std::vector<Record> records;
  // Bytes behind the last whole record: what a killed process left, or damage. Never an error by itself.
  std::uint64_t cut_bytes = 0;
};

// Reads the bytes of any file. Nothing, with `why`, where they do not begin like a manifest.
std::optional<Manifest> parse_manifest(std::span<const std::byte> file, std::string& why);
// The same for a path; throws CacheError.
Manifest read_manifest(const std::string& path);

// All records of all, sorted by kernel and text, each once.
std::vector<Record> merge_records(std::span<const Manifest> manifests);
// Beside the target and then in its place, durably. Throws CacheError.
void write_manifest(const std::string& path, std::span<const Record> records);

// A process's own manifest: made at the first record, under a name that nobody else has. Not thread-safe.
class ManifestWriter {
 public:
  // `directory` is made if only its last component is missing.
  explicit ManifestWriter(std::string directory) : directory_(std::move(directory)) {}
  // 0 or an errno; after a failure nothing more is written.
  int append(const Record& record);
  const std::string& path() const { return path_; }

 private:
  int open();

  std::string directory_, path_;
  File file_;
  bool failed_ = false;
};

}  // namespace tileweave::cache
