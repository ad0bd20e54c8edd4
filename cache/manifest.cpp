// The frames of a manifest: written whole or cut, read with every size checked before it is believed.
// See manifest.h; manifest_file.cpp puts them into files.
#include "tileweave/cache/manifest.h"

#include <algorithm>
#include <array>

#include "tileweave/cache/bytes.h"

namespace tileweave::cache {
namespace {

constexpr std::string_view magic("TWREC\x00\x00\x01", 8);
constexpr std::size_t frame_head = 8;

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ 0x82f63b78U : c >> 1;
    table[i] = c;
  }
  return table;
}();

std::vector<std::byte> size_bytes(std::uint32_t size) {
  std::vector<std::byte> bytes;
  ByteWriter(bytes).u32(size);
  return bytes;
}

std::optional<Record> parse_payload(std::span<const std::byte> payload) {
  ByteReader in(payload);
  Record r;
  r.kernel_name = in.text(in.u32());
  r.ir = in.text(in.u32());
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return r;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t c = ~before;
  for (const std::byte b : bytes) c = crc_table[(c ^ static_cast<std::uint32_t>(b)) & 0xff] ^ (c >> 8);
  return ~c;
}

std::vector<std::byte> manifest_header() {
  const auto bytes = bytes_of(magic);
  return {bytes.begin(), bytes.end()};
}

std::optional<std::vector<std::byte>> encode_record(const Record& record) {
  const std::uint64_t size = 8 + record.kernel_name.size() + record.ir.size();
  if (size > most_record_bytes) return std::nullopt;
  std::vector<std::byte> payload;
  ByteWriter body(payload);
  body.u32(static_cast<std::uint32_t>(record.kernel_name.size()));
  body.text(record.kernel_name);
  body.u32(static_cast<std::uint32_t>(record.ir.size()));
  body.text(record.ir);
  const std::vector<std::byte> head = size_bytes(static_cast<std::uint32_t>(payload.size()));
  std::vector<std::byte> frame = head;
  ByteWriter out(frame);
  out.u32(crc32c(payload, crc32c(head)));
  out.bytes(payload);
  return frame;
}

std::optional<Manifest> parse_manifest(std::span<const std::byte> file, std::string& why) {
  if (file.size() < magic.size() || text_of(file.first(magic.size())) != magic) {
    why = "is not a manifest";
    return std::nullopt;
  }
  Manifest m;
  std::span<const std::byte> rest = file.subspan(magic.size());
  while (rest.size() >= frame_head) {
    ByteReader head(rest.first(frame_head));
    const std::uint32_t size = head.u32(), crc = head.u32();
    if (size > most_record_bytes || size > rest.size() - frame_head) break;
    const auto payload = rest.subspan(frame_head, size);
    if (crc32c(payload, crc32c(size_bytes(size))) != crc) break;
    auto record = parse_payload(payload);
    if (!record) break;
    m.records.push_back(std::move(*record));
    rest = rest.subspan(frame_head + size);
  }
  m.cut_bytes = rest.size();
  return m;
}

std::vector<Record> merge_records(std::span<const Manifest> manifests) {
  std::vector<Record> all;
  for (const Manifest& m : manifests) all.insert(all.end(), m.records.begin(), m.records.end());
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  return all;
}

}  // namespace tileweave::cache
