// One cache entry = one relocatable file: header, key blob, kernel name, meta, payload, and a checksum over the rest.
// Between the stores and the bytes; everything that reads an entry from a file goes through check_entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/cache/key.h"

namespace tileweave::cache {

// What is cached. The cache does not look inside: the payload is the caller's serialised binary.
struct Entry {
  std::string kernel_name;         // for people and for finding other variants of one kernel
  std::string meta;                // whatever the caller wants to read without the payload
  std::vector<std::byte> payload;  // never empty in a stored entry

  friend bool operator==(const Entry&, const Entry&) = default;
};

// The parts of an entry file, looking into its bytes.
struct EntryView {
  std::span<const std::byte> key_blob;
  std::string_view kernel_name;
  std::string_view meta;
  std::span<const std::byte> payload;  // as stored
  std::uint32_t raw_bytes = 0;         // of the payload unpacked, where it is compressed; else 0
  std::uint64_t created = 0;           // seconds since 1970; 0 in packs, whose bytes must not depend on time

  std::uint64_t payload_bytes() const { return raw_bytes != 0 ? raw_bytes : payload.size(); }
  // Nothing where a compressed payload does not unpack to what the header says.
  std::optional<Entry> entry() const;
};

enum class EntryFault : std::uint8_t {
  none,
  too_short,
  not_an_entry,
  unknown_format,
  bad_sizes,
  bad_checksum,
  bad_key
};
std::string_view to_string(EntryFault fault);

// Larger files are damaged by definition: bounds what reading a hostile one can cost.
constexpr std::uint64_t max_entry_bytes = std::uint64_t{256} << 20;
// So many bytes decide whether a file can be an entry at all.
constexpr std::size_t entry_header_bytes = 80;

// A compressed payload states its size and may unpack to at most so many times its bytes: a hostile one costs little.
constexpr std::uint64_t most_expansion = 60;

// `compressed`: the payload by zstd where that makes the file smaller (packs: they travel); else as it is (roots: they
// are read).
std::vector<std::byte> encode_entry(const Key& key, const Entry& entry, std::uint64_t created, bool compressed = false);

// Accepts exactly what encode_entry writes. `view` is set only where the answer is `none`.
EntryFault check_entry(std::span<const std::byte> file, EntryView& view);

}  // namespace tileweave::cache
