// Reading packs: the index whole at open, entries by pread as they are asked for.
// See pack.h for the format; pack_writer.cpp writes it.
#include "tileweave/cache/pack.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/pack_format.h"

namespace tileweave::cache {
namespace {

struct Header {
  std::uint64_t entries = 0, profiles = 0, index_at = 0, index_bytes = 0;
};

std::optional<Header> read_header(std::span<const std::byte> bytes, std::uint64_t file_bytes, std::string& why) {
  ByteReader in(bytes);
  if (in.text(pack_magic.size()) != pack_magic) {
    why = not_a_pack;
    return std::nullopt;
  }
  const std::uint32_t format = in.u32(), header_bytes = in.u32();
  if (format != format_number || header_bytes != pack_header_bytes) {
    why = "is a pack of format " + std::to_string(format) + ", this library reads format " +
          std::to_string(format_number);
    return std::nullopt;
  }
  Header h{in.u64(), in.u64(), in.u64(), in.u64()};
  const bool fits =
      h.index_at >= pack_header_bytes && h.index_at <= file_bytes && h.index_bytes <= file_bytes - h.index_at &&
      file_bytes - h.index_at - h.index_bytes == pack_footer_bytes && h.index_bytes <= most_index_bytes &&
      h.entries <= h.index_bytes / pack_row_bytes && h.profiles <= h.index_bytes / pack_least_profile_bytes;
  if (!fits) {
    why = "is cut short or damaged: its header's sizes do not fit the file";
    return std::nullopt;
  }
  return h;
}

bool read_profiles(ByteReader& in, std::uint64_t count, PackIndex& index) {
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    StoredProfile p;
    p.id = in.text(16);
    p.entries = in.u64();
    p.text = in.text(in.u32());
    index.profiles.push_back(std::move(p));
  }
  return in.ok();
}

// Rows in order, one entry after the other without gap or overlap.
bool read_rows(ByteReader& in, const Header& header, PackIndex& index) {
  if (in.left() != header.entries * pack_row_bytes) return false;
  index.rows.reserve(static_cast<std::size_t>(header.entries));
  std::uint64_t end = pack_header_bytes;
  for (std::uint64_t i = 0; i < header.entries; ++i) {
    PackIndex::Row row;
    row.address.high = in.u64();
    row.address.low = in.u64();
    row.offset = in.u64();
    row.size = in.u64();
    const auto digest = in.bytes(row.digest.size());
    std::ranges::copy(digest, row.digest.begin());
    const bool in_order = index.rows.empty() || !(row.address < index.rows.back().address);
    if (!in_order || row.offset != end || row.size > max_entry_bytes || row.size > header.index_at - end) return false;
    end += row.size;
    index.rows.push_back(row);
  }
  return end == header.index_at;
}

}  // namespace

std::optional<PackIndex> read_pack_index(int file, std::string& why) {
  struct stat info = {};
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    why = "is not a regular file";
    return std::nullopt;
  }
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (file_bytes < pack_header_bytes + pack_footer_bytes) {
    why = not_a_pack;
    return std::nullopt;
  }
  std::vector<std::byte> bytes(pack_header_bytes);
  const auto fail = [&why](int error) {
    why = error == file_too_short ? "was cut short while it was read" : error_text(error);
    return std::nullopt;
  };
  if (const int error = read_whole(file, bytes)) return fail(error);
  const auto header = read_header(bytes, file_bytes, why);
  if (!header) return std::nullopt;
  // Header and index side by side: what the footer's digest covers.
  bytes.resize(static_cast<std::size_t>(pack_header_bytes + header->index_bytes));
  const auto index_bytes = std::span(bytes).subspan(pack_header_bytes);
  if (const int error = read_whole(file, index_bytes, header->index_at)) return fail(error);
  PackIndex index;
  if (const int error = read_whole(file, index.digest, header->index_at + header->index_bytes)) return fail(error);
  if (sha256(bytes) != index.digest) {
    why = "is damaged: its digest differs";
    return std::nullopt;
  }
  ByteReader in(index_bytes);
  if (!read_profiles(in, header->profiles, index) || !read_rows(in, *header, index)) {
    why = "has a malformed index";
    return std::nullopt;
  }
  return index;
}

PackStore::PackStore(std::string path, File file, PackIndex index, bool owner_trusted)
    : path_(std::move(path)),
      file_(std::move(file)),
      index_(std::move(index)),
      owner_trusted_(owner_trusted),
      checked_(index_.rows.size()) {}

std::unique_ptr<PackStore> PackStore::open(const std::string& path, const std::string& sha256,
                                           const TrustPolicy& policy, std::string& why) {
  OpenedDirectory trusted = open_trusted_file(path, policy);
  const bool owner_trusted = static_cast<bool>(trusted.directory);
  File file = std::move(trusted.directory);
  if (!owner_trusted) {
    why = trusted.refusal;
    if (sha256.empty()) return nullptr;
    // The digest vouches for the content, so it does not matter who could have written it, or through which links.
    file = File(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) {
      why = path + ": " + error_text(errno);
      return nullptr;
    }
  }
  auto index = read_pack_index(file.get(), why);
  if (!index) {
    why = path + " " + why;
    return nullptr;
  }
  const std::string digest = hex_of(index->digest);
  if (!sha256.empty() && sha256 != digest) {
    why = path + " has the digest " + digest + ", not the pinned " + sha256;
    return nullptr;
  }
  return std::unique_ptr<PackStore>(new PackStore(path, std::move(file), std::move(*index), owner_trusted));
}

std::optional<std::vector<std::byte>> PackStore::read_checked(std::size_t row) const {
  const PackIndex::Row& r = index_.rows[row];
  std::vector<std::byte> bytes(static_cast<std::size_t>(r.size));
  if (read_whole(file_.get(), bytes, r.offset) != 0) return std::nullopt;
  // Once is enough for a file that nobody else can write.
  if (owner_trusted_ && checked_[row].load(std::memory_order_relaxed)) return bytes;
  if (sha256(bytes) != r.digest) {
    damaged_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  checked_[row].store(true, std::memory_order_relaxed);
  return bytes;
}

std::optional<Entry> PackStore::get(const Key& key) {
  const auto range = std::ranges::equal_range(index_.rows, key.address(), {}, &PackIndex::Row::address);
  for (const PackIndex::Row& row : range) {
    const auto bytes = read_checked(static_cast<std::size_t>(&row - index_.rows.data()));
    EntryView view;
    if (!bytes || check_entry(*bytes, view) != EntryFault::none) continue;
    if (text_of(view.key_blob) != text_of(key.blob())) continue;
    if (auto entry = view.entry()) return entry;
  }
  return std::nullopt;
}

std::vector<Profile> PackStore::tool_chains() {
  std::vector<Profile> out;
  for (const StoredProfile& stored : index_.profiles) {
    if (auto profile = Profile::parse(stored.text)) out.push_back(std::move(*profile));
  }
  return out;
}

void PackStore::visit(const std::function<bool(const EntryInfo&)>& callback) {
  for (std::size_t row = 0; row < index_.rows.size(); ++row) {
    const auto bytes = read_checked(row);
    EntryView view;
    if (!bytes || check_entry(*bytes, view) != EntryFault::none) continue;
    auto key = Key::parse(view.key_blob, std::string(view.kernel_name));
    if (!key) continue;
    const std::string place = path_ + ":" + index_.rows[row].address.hex();
    if (!callback({std::move(*key), std::string(view.meta), view.payload_bytes(), view.created, place})) return;
  }
}

}  // namespace tileweave::cache
