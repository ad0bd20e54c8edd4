// SHA-256, for what a digest must vouch for against people and not only against accidents: packs.
// Used by pack.h; libcrypto computes it where the machine has it.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace tileweave::cache {

using Sha256 = std::array<std::byte, 32>;

Sha256 sha256(std::span<const std::byte> bytes);

// Our own computation, about ten times slower: an image without libcrypto still gets its packs checked.
Sha256 sha256_portable(std::span<const std::byte> bytes);

// "libcrypto.so.3" or "portable".
std::string sha256_provider();

}  // namespace tileweave::cache
