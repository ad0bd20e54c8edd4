// Binary as bytes: round trip, every truncation, every flipped byte.
// Tests jit/base/binary, the form the cache stores.
#include "tileweave/jit/base/binary.h"

#include <doctest/doctest.h>

#include "tileweave/jit/base/error.h"

namespace tileweave {
namespace {

Binary sample() {
  Binary b;
  b.kind = Binary::Kind::ptx;
  b.entry = std::string("soft\0max\n", 9);
  b.target = "sm_90a";
  for (int i = 0; i < 40; ++i) b.code.push_back(static_cast<std::byte>(255 - i));
  b.threads_per_block = 128;
  b.smem_bytes = 232448;
  b.scratch_bytes = std::int64_t{1} << 33;
  b.cluster = 2;
  b.meta = "pdl=1 registers=40";
  return b;
}

bool same(const Binary& a, const Binary& b) {
  return a.kind == b.kind && a.entry == b.entry && a.target == b.target && a.code == b.code && a.meta == b.meta &&
         a.threads_per_block == b.threads_per_block && a.smem_bytes == b.smem_bytes &&
         a.scratch_bytes == b.scratch_bytes && a.cluster == b.cluster;
}

TEST_CASE("a binary survives the round trip") {
  CHECK(same(deserialize(serialize(sample())), sample()));
  CHECK(same(deserialize(serialize(Binary{})), Binary{}));
  CHECK_FALSE(same(deserialize(serialize(sample())), Binary{}));
}

TEST_CASE("every truncation and every extension is refused") {
  std::vector<std::byte> bytes = serialize(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_THROWS_AS(deserialize(std::span(bytes).first(n)), CacheError);
  }
  bytes.push_back(std::byte{0});
  CHECK_THROWS_AS(deserialize(bytes), CacheError);
}

TEST_CASE("a flipped byte is an error or another well-formed binary, and lengths cannot run away") {
  const std::vector<std::byte> good = serialize(sample());
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::vector<std::byte> bytes = good;
      bytes[i] ^= static_cast<std::byte>(flip);
      try {
        const Binary b = deserialize(bytes);
        CHECK(serialize(b) == bytes);
      } catch (const CacheError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("other bytes are refused with what they are not") {
  std::vector<std::byte> bytes = serialize(sample());
  bytes[0] ^= std::byte{1};
  CHECK_THROWS_WITH_AS(deserialize(bytes), "error: a compiled kernel's bytes have another format", CacheError);
  bytes = serialize(sample());
  bytes[4] = std::byte{200};
  CHECK_THROWS_WITH_AS(deserialize(bytes), "error: a compiled kernel has an unknown kind", CacheError);
}

}  // namespace
}  // namespace tileweave
