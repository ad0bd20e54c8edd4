// The fixed sizes of a pack file, for its reader and its writer.
// See pack.h for what they are the sizes of.
#pragma once

#include <cstdint>
#include <string_view>

namespace tileweave::cache {

constexpr std::string_view pack_magic("TWPACK\x00\x01", 8);
constexpr std::uint32_t pack_header_bytes = 48;
constexpr std::uint64_t pack_row_bytes = 64;
constexpr std::uint64_t pack_least_profile_bytes = 28;
constexpr std::uint64_t pack_footer_bytes = 32;
// Bounds what opening a hostile file can cost; room for two million entries.
constexpr std::uint64_t most_index_bytes = std::uint64_t{128} << 20;

}  // namespace tileweave::cache
