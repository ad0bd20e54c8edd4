// The entry codec: what is written is read back; anything else, however made, is refused without harm.
#include "tileweave/cache/entry.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tileweave/cache/bytes.h"
#include "tileweave/jit/base/env.h"

namespace tileweave::cache {
namespace {

Key some_key(std::uint64_t n = 0) {
  return KeyWriter({"c", "19", "sm_80", "ptx", "none"}).natural("n", n).finish("add");
}

Entry some_entry(std::size_t payload_bytes = 300) {
  Entry e{"add", "{\"regs\": 24}", {}};
  for (std::size_t i = 0; i < payload_bytes; ++i) e.payload.push_back(static_cast<std::byte>(i * 7));
  return e;
}

// Puts the right checksum on altered bytes, as an attacker would.
void reseal(std::vector<std::byte>& file) {
  const Hash128 h = hash128(std::span(file).subspan(24));
  for (std::size_t i = 0; i < 8; ++i) {
    file[8 + i] = static_cast<std::byte>(h.high >> (8 * i));
    file[16 + i] = static_cast<std::byte>(h.low >> (8 * i));
  }
}

TEST_CASE("cache entry: what is encoded is read back") {
  for (const std::size_t size : {1U, 17U, 4096U, 70000U}) {
    const Entry e = some_entry(size);
    const auto file = encode_entry(some_key(), e, 1234);
    EntryView view;
    REQUIRE(check_entry(file, view) == EntryFault::none);
    CHECK(view.entry() == e);
    CHECK(view.created == 1234);
    CHECK(text_of(view.key_blob) == text_of(some_key().blob()));
  }
}

TEST_CASE("cache entry: compressed payloads are read back, are smaller, and say how large they are") {
  Entry e = some_entry(0);
  std::mt19937 random(5);
  for (int i = 0; i < 30000; ++i) e.payload.push_back(static_cast<std::byte>(random() % 7));
  const auto plain = encode_entry(some_key(), e, 0), packed = encode_entry(some_key(), e, 0, true);
  CHECK(packed.size() < plain.size() / 2);
  CHECK(packed == encode_entry(some_key(), e, 0, true));
  EntryView view;
  REQUIRE(check_entry(packed, view) == EntryFault::none);
  CHECK(view.payload_bytes() == 30000);
  CHECK(view.entry() == e);
}

TEST_CASE("cache entry: what does not shrink, or would unpack to too many times its size, is kept as it is") {
  Entry noise = some_entry(0), zeros = some_entry(0);
  std::mt19937 random(6);
  for (int i = 0; i < 3000; ++i) noise.payload.push_back(static_cast<std::byte>(random()));
  zeros.payload.resize(1 << 20);
  for (const Entry& e : {noise, zeros}) {
    const auto file = encode_entry(some_key(), e, 0, true);
    EntryView view;
    REQUIRE(check_entry(file, view) == EntryFault::none);
    CHECK(view.raw_bytes == 0);
    CHECK(view.entry() == e);
  }
}

TEST_CASE("cache entry: a payload that claims to unpack to more than it may, or to something else, is refused") {
  Entry e = some_entry(0);
  std::mt19937 random(7);  // half a byte of news in each: packs to half, and may claim more than that
  for (int i = 0; i < 30000; ++i) e.payload.push_back(static_cast<std::byte>(random() % 16));
  const auto good = encode_entry(some_key(), e, 0, true);
  EntryView view;
  REQUIRE(check_entry(good, view) == EntryFault::none);
  const auto stored = static_cast<std::uint32_t>(view.payload.size());
  const auto claim = [&](std::uint32_t raw) {
    auto file = good;
    for (std::size_t i = 0; i < 4; ++i) file[36 + i] = static_cast<std::byte>(raw >> (8 * i));
    reseal(file);
    return file;
  };
  for (const std::uint32_t raw : {0U, 1U, stored, stored * 60 + 1, 0xffffffffU}) {
    CAPTURE(raw);
    CHECK(check_entry(claim(raw), view) == EntryFault::bad_sizes);
  }
  for (const std::uint32_t raw : {29999U, 30001U}) {
    const auto file = claim(raw);
    REQUIRE(check_entry(file, view) == EntryFault::none);
    CHECK_FALSE(view.entry());
  }
}

TEST_CASE("cache entry: the file does not depend on anything but its input") {
  CHECK(encode_entry(some_key(), some_entry(), 0) == encode_entry(some_key(), some_entry(), 0));
}

TEST_CASE("cache entry: every truncation and every extension is refused") {
  auto file = encode_entry(some_key(), some_entry(), 1);
  EntryView view;
  for (std::size_t n = 0; n < file.size(); ++n) {
    CHECK(check_entry(std::span(file).first(n), view) != EntryFault::none);
  }
  file.push_back(std::byte{0});
  CHECK(check_entry(file, view) == EntryFault::bad_sizes);
}

TEST_CASE("cache entry: every flipped bit is refused") {
  auto file = encode_entry(some_key(), some_entry(40), 1);
  EntryView view;
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    file[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CHECK(check_entry(file, view) != EntryFault::none);
    file[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  CHECK(check_entry(file, view) == EntryFault::none);
}

TEST_CASE("cache entry: sizes that overflow, overlap or lie are refused even under a right checksum") {
  const auto good = encode_entry(some_key(), some_entry(), 1);
  for (const std::size_t field : {48U, 56U, 64U, 72U}) {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{5}}) {
      auto file = good;
      for (std::size_t i = 0; i < 8; ++i) file[field + i] = static_cast<std::byte>(value >> (8 * i));
      reseal(file);
      EntryView view;
      CHECK(check_entry(file, view) == EntryFault::bad_sizes);
    }
  }
}

TEST_CASE("cache entry: two sizes that wrap around to the right sum are refused") {
  auto file = encode_entry(some_key(), some_entry(), 1);
  // key size + 2^63 and meta size + 2^63 add up to the true total modulo 2^64.
  file[48 + 7] ^= std::byte{0x80};
  file[64 + 7] ^= std::byte{0x80};
  reseal(file);
  EntryView view;
  CHECK(check_entry(file, view) == EntryFault::bad_sizes);
}

TEST_CASE("cache entry: an empty payload is no entry") {
  Entry e = some_entry();
  e.payload.clear();
  EntryView view;
  CHECK(check_entry(encode_entry(some_key(), e, 1), view) == EntryFault::bad_sizes);
}

TEST_CASE("cache entry: other magic, format, header size and codec are told apart") {
  const auto good = encode_entry(some_key(), some_entry(), 1);
  const std::pair<std::size_t, EntryFault> cases[] = {{0, EntryFault::not_an_entry},
                                                      {24, EntryFault::unknown_format},
                                                      {28, EntryFault::unknown_format},
                                                      {32, EntryFault::unknown_format},
                                                      {36, EntryFault::bad_sizes}};
  for (const auto& [at, fault] : cases) {
    auto file = good;
    file[at] ^= std::byte{2};
    reseal(file);
    EntryView view;
    CHECK(check_entry(file, view) == fault);
  }
}

std::vector<std::byte> mutated(std::vector<std::byte> file, std::mt19937& random) {
  const unsigned edits = 1 + random() % 4;
  for (unsigned i = 0; i < edits && !file.empty(); ++i) {
    const std::size_t at = random() % file.size();
    switch (random() % 5) {
      case 0:
        file[at] = static_cast<std::byte>(random());
        break;
      case 1:
        file.resize(at);
        break;
      case 2:
        file.insert(file.begin() + static_cast<std::ptrdiff_t>(at), random() % 9, static_cast<std::byte>(random()));
        break;
      case 3:  // a header field
        if (file.size() > 24) file[24 + random() % std::min<std::size_t>(56, file.size() - 24)] ^= std::byte{1};
        break;
      default:
        file.erase(file.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return file;
}

TEST_CASE("cache entry: mutated files are refused, or under a right checksum read within their bounds") {
  const auto good = encode_entry(some_key(), some_entry(60), 1);
  const int count = env().long_tests ? 1000000 : 20000;
  std::mt19937 random(3);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    auto file = mutated(good, random);
    EntryView view;
    if (file != good) CHECK(check_entry(file, view) != EntryFault::none);
    if (file.size() <= 24) continue;
    reseal(file);
    if (check_entry(file, view) != EntryFault::none) continue;
    ++accepted;
    CHECK(80 + view.key_blob.size() + view.kernel_name.size() + view.meta.size() + view.payload.size() == file.size());
    const auto e = view.entry();  // may not unpack where the codec was altered
    if (e) CHECK(e->payload.size() == view.payload_bytes());
    const auto key = Key::parse(view.key_blob, std::string(view.kernel_name));
    if (key) (void)differences(*key, some_key());
  }
  CHECK(accepted > count / 100);  // else the second half tested nothing
}

}  // namespace
}  // namespace tileweave::cache
