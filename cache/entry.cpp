// The entry file, little-endian:
//   0 magic[8] | 8 checksum[16] over all that follows | 24 format u32 | 28 header size u32 | 32 codec u32 | 36 raw
//   payload size u32 (0: plain) 40 created u64 | 48 key size u64 | 56 name size u64 | 64 meta size u64 | 72 payload
//   size u64 | key name meta payload
// The artefact's kind is no header field: the profile inside the key says it, and one fact stands in one place.
#include "tileweave/cache/entry.h"

#include <zstd.h>

#include "tileweave/cache/bytes.h"

namespace tileweave::cache {
namespace {

constexpr std::string_view magic("TWENTRY\x01", 8);
constexpr std::size_t checksum_at = 8, checksummed_from = 24;
constexpr std::uint32_t codec_plain = 0, codec_zstd = 1;
constexpr int zstd_level = 19;  // packs are written once and read often

void write_checksum(std::vector<std::byte>& file) {
  const Hash128 h = hash128(std::span(file).subspan(checksummed_from));
  for (std::size_t i = 0; i < 8; ++i) {
    file[checksum_at + i] = static_cast<std::byte>(h.high >> (8 * i));
    file[checksum_at + 8 + i] = static_cast<std::byte>(h.low >> (8 * i));
  }
}

// The sum of sizes that a hostile header may state, without overflow.
bool add_up_to(std::uint64_t total, std::span<const std::uint64_t> parts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t part : parts) {
    if (part > total - sum) return false;
    sum += part;
  }
  return sum == total;
}

// Empty where compressing does not pay.
std::vector<std::byte> compress(std::span<const std::byte> payload) {
  std::vector<std::byte> out(ZSTD_compressBound(payload.size()));
  const std::size_t n = ZSTD_compress(out.data(), out.size(), payload.data(), payload.size(), zstd_level);
  const bool pays = ZSTD_isError(n) == 0 && n < payload.size() && payload.size() <= n * most_expansion;
  out.resize(pays ? n : 0);
  return out;
}

bool are_sizes_of_codec(std::uint32_t codec, std::uint32_t raw_bytes, std::uint64_t stored_bytes) {
  if (codec == codec_plain) return raw_bytes == 0;
  return raw_bytes > stored_bytes && raw_bytes <= max_entry_bytes && raw_bytes <= stored_bytes * most_expansion;
}

}  // namespace

std::optional<Entry> EntryView::entry() const {
  Entry out{std::string(kernel_name), std::string(meta), {}};
  if (raw_bytes == 0) {
    out.payload.assign(payload.begin(), payload.end());
    return out;
  }
  out.payload.resize(raw_bytes);
  const std::size_t n = ZSTD_decompress(out.payload.data(), raw_bytes, payload.data(), payload.size());
  if (ZSTD_isError(n) != 0 || n != raw_bytes) return std::nullopt;
  return out;
}

std::string_view to_string(EntryFault fault) {
  switch (fault) {
    case EntryFault::none:
      return "intact";
    case EntryFault::too_short:
      return "shorter than a header";
    case EntryFault::not_an_entry:
      return "not an entry file";
    case EntryFault::unknown_format:
      return "of an unknown format";
    case EntryFault::bad_sizes:
      return "of another size than its header says";
    case EntryFault::bad_checksum:
      return "damaged: the checksum differs";
    case EntryFault::bad_key:
      return "intact but its key is malformed";
  }
  return "unknown fault";
}

std::vector<std::byte> encode_entry(const Key& key, const Entry& entry, std::uint64_t created, bool compressed) {
  const std::vector<std::byte> packed = compressed ? compress(entry.payload) : std::vector<std::byte>();
  const std::span<const std::byte> stored = packed.empty() ? entry.payload : packed;
  std::vector<std::byte> file;
  file.reserve(entry_header_bytes + key.blob().size() + entry.kernel_name.size() + entry.meta.size() + stored.size());
  ByteWriter out(file);
  out.text(magic);
  out.u64(0);  // the checksum's place
  out.u64(0);
  out.u32(format_number);
  out.u32(entry_header_bytes);
  out.u32(packed.empty() ? codec_plain : codec_zstd);
  out.u32(packed.empty() ? 0 : static_cast<std::uint32_t>(entry.payload.size()));
  out.u64(created);
  out.u64(key.blob().size());
  out.u64(entry.kernel_name.size());
  out.u64(entry.meta.size());
  out.u64(stored.size());
  out.bytes(key.blob());
  out.text(entry.kernel_name);
  out.text(entry.meta);
  out.bytes(stored);
  write_checksum(file);
  return file;
}

EntryFault check_entry(std::span<const std::byte> file, EntryView& view) {
  if (file.size() < entry_header_bytes) return EntryFault::too_short;
  if (file.size() > max_entry_bytes) return EntryFault::bad_sizes;
  ByteReader in(file);
  if (in.text(magic.size()) != magic) return EntryFault::not_an_entry;
  const std::uint64_t high = in.u64(), low = in.u64();
  const std::uint32_t format = in.u32(), header_size = in.u32(), codec = in.u32(), raw_bytes = in.u32();
  if (format != format_number || header_size != entry_header_bytes || codec > codec_zstd) {
    return EntryFault::unknown_format;
  }
  EntryView v;
  v.created = in.u64();
  const std::uint64_t sizes[] = {in.u64(), in.u64(), in.u64(), in.u64()};
  if (!add_up_to(in.left(), sizes) || sizes[3] == 0) return EntryFault::bad_sizes;
  if (!are_sizes_of_codec(codec, raw_bytes, sizes[3])) return EntryFault::bad_sizes;
  if (hash128(file.subspan(checksummed_from)) != Hash128{high, low}) return EntryFault::bad_checksum;
  v.key_blob = in.bytes(sizes[0]);
  v.kernel_name = in.text(sizes[1]);
  v.meta = in.text(sizes[2]);
  v.payload = in.bytes(sizes[3]);
  v.raw_bytes = raw_bytes;
  view = v;
  return EntryFault::none;
}

}  // namespace tileweave::cache
