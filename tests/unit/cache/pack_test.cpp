// Packs: equal content gives equal bytes; every altered byte is refused; as layers they serve, pinned or trusted.
#include "tileweave/cache/pack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "temporary_directory.h"
#include "tileweave/cache/bytes.h"
#include "tileweave/cache/cache.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

std::string hex_of_sha256(std::string_view text) { return hex_of(sha256_portable(bytes_of(text))); }

struct Rig {
  TemporaryDirectory tmp;
  Reporter quiet{[](const std::string&) {}};

  std::unique_ptr<DiskStore> root(const std::string& name) {
    DiskOptions options;
    options.root = tmp / name;
    return DiskStore::open(options, quiet);
  }
  // A pack of kernels 0..count-1 stored in the given order.
  PackSummary pack(const std::string& name, std::vector<std::uint64_t> numbers) {
    const auto store = root(name + ".root");
    for (const std::uint64_t n : numbers) REQUIRE(store->put(test_key(n), test_entry(n, 200 + n)));
    Store* sources[] = {store.get()};
    return write_pack(sources, tmp / name);
  }
  std::unique_ptr<PackStore> open(const std::string& name, const std::string& pin = {}) {
    why.clear();
    return PackStore::open(tmp / name, pin, TrustPolicy::of_this_process(), why);
  }
  std::string why;
};

TEST_CASE("cache sha256: the standard's examples, every length of a last block, and libcrypto agree") {
  CHECK(hex_of_sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex_of_sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex_of_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex_of_sha256(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  (void)sha256(std::vector<std::byte>(1 << 20));  // from here on libcrypto computes, where it is
  std::string text;
  for (int n = 0; n < 300; ++n) {
    CHECK(sha256(bytes_of(text)) == sha256_portable(bytes_of(text)));
    text += static_cast<char>(n * 37);
  }
}

TEST_CASE("cache pack: what was packed is read; what was not is a miss") {
  Rig rig;
  const PackSummary made = rig.pack("a.pack", {0, 1, 2, 3, 4});
  CHECK(made.entries == 5);
  CHECK(made.bytes == fs::file_size(rig.tmp / "a.pack"));
  const auto pack = rig.open("a.pack");
  REQUIRE(pack);
  for (std::uint64_t n = 0; n < 5; ++n) {
    CHECK(pack->get(test_key(n)) == test_entry(n, 200 + n));
    CHECK(pack->get(test_key(n)) == test_entry(n, 200 + n));
  }
  CHECK_FALSE(pack->get(test_key(5)));
  CHECK_FALSE(pack->put(test_key(5), test_entry(5)));
  REQUIRE(pack->index().profiles.size() == 1);
  CHECK(pack->index().profiles[0].entries == 5);
  CHECK(pack->index().profiles[0].text == test_key(0).profile().text());
  CHECK(hex_of(pack->index().digest) == made.digest);
  int seen = 0;
  pack->visit([&](const EntryInfo& info) {
    CHECK(info.created == 0);
    return ++seen > 0;
  });
  CHECK(seen == 5);
}

TEST_CASE("cache pack: the bytes depend on the content only, not on order, time, place or repetition") {
  Rig rig;
  rig.pack("a.pack", {0, 1, 2, 3, 4, 5, 6});
  rig.pack("b.pack", {6, 3, 0, 1, 5, 4, 2});
  CHECK(file_text(rig.tmp / "a.pack") == file_text(rig.tmp / "b.pack"));
  const auto a = rig.open("a.pack"), b = rig.open("b.pack");
  Store* both[] = {a.get(), b.get()};
  write_pack(both, rig.tmp / "c.pack");  // a pack of packs
  CHECK(file_text(rig.tmp / "a.pack") == file_text(rig.tmp / "c.pack"));
  CHECK(rig.pack("d.pack", {0, 1}).digest != rig.pack("e.pack", {0, 2}).digest);
  CHECK(std::ranges::none_of(files_below(rig.tmp.path()), [](const std::string& f) { return f.ends_with(".tmp"); }));
}

TEST_CASE("cache pack: an empty pack is a pack") {
  Rig rig;
  CHECK(rig.pack("a.pack", {}).entries == 0);
  const auto pack = rig.open("a.pack");
  REQUIRE(pack);
  CHECK_FALSE(pack->get(test_key(0)));
}

TEST_CASE("cache pack: two keys of one address are both served") {
  Rig rig;
  struct OneAddress {
    OneAddress() { set_address_bits_for_test(0); }
    ~OneAddress() { set_address_bits_for_test(128); }
  } hook;
  const auto a = rig.root("a"), b = rig.root("b");
  a->put(test_key(1), test_entry(1));
  b->put(test_key(2), test_entry(2));
  Store* sources[] = {a.get(), b.get()};
  CHECK(write_pack(sources, rig.tmp / "p.pack").entries == 2);
  const auto pack = rig.open("p.pack");
  REQUIRE(pack);
  CHECK(pack->get(test_key(1)) == test_entry(1));
  CHECK(pack->get(test_key(2)) == test_entry(2));
  CHECK_FALSE(pack->get(test_key(3)));
}

TEST_CASE("cache pack: any altered, cut or added byte is refused at open or at the entry's first use") {
  Rig rig;
  const std::string pin = rig.pack("a.pack", {0, 1, 2}).digest;
  const std::string good = file_text(rig.tmp / "a.pack");
  const int count = env().long_tests ? 20000 : 1500;
  std::mt19937 random(21);
  for (int i = 0; i < count; ++i) {
    std::string bad = good;
    const int kind = static_cast<int>(random() % 4);
    if (kind < 2) bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
    if (kind == 2) bad.resize(random() % bad.size());
    if (kind == 3) bad.insert(random() % bad.size(), 1 + random() % 3, 'x');
    write_file(rig.tmp / "bad.pack", bad);
    const auto pack = rig.open("bad.pack", i % 2 == 0 ? pin : "");
    if (!pack) {
      CHECK_FALSE(rig.why.empty());
      continue;
    }
    int missing = 0;
    for (std::uint64_t n = 0; n < 3; ++n) {
      const auto entry = pack->get(test_key(n));
      if (entry) CHECK(*entry == test_entry(n, 200 + n));
      missing += entry ? 0 : 1;
    }
    CHECK(missing >= 1);  // one byte fell into one entry
  }
}

TEST_CASE("cache pack: an index that lies under a right digest is read within its bounds") {
  Rig rig;
  rig.pack("a.pack", {0, 1, 2});
  const std::string good = file_text(rig.tmp / "a.pack");
  std::mt19937 random(22);
  int opened = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    std::uint64_t index_at = 0;
    std::copy_n(bad.data() + 32, 8, reinterpret_cast<char*>(&index_at));
    const std::size_t index_bytes = bad.size() - static_cast<std::size_t>(index_at) - 32;
    const bool in_header = random() % 2 == 0;
    const std::size_t at = in_header ? 16 + random() % 32 : static_cast<std::size_t>(index_at) + random() % index_bytes;
    bad[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    const std::string covered = bad.substr(0, 48) + bad.substr(static_cast<std::size_t>(index_at), index_bytes);
    const Sha256 digest = sha256(bytes_of(covered));
    std::copy_n(reinterpret_cast<const char*>(digest.data()), 32, bad.end() - 32);
    write_file(rig.tmp / "bad.pack", bad);
    if (const auto pack = rig.open("bad.pack")) {
      ++opened;
      for (std::uint64_t n = 0; n < 3; ++n) {
        if (const auto entry = pack->get(test_key(n))) CHECK(*entry == test_entry(n, 200 + n));
      }
    }
  }
  CHECK(opened > 100);
}

TEST_CASE("cache pack: files that are no packs") {
  Rig rig;
  for (const std::string& text : {std::string(), std::string("x"), std::string(1000, '\0'), std::string(1000, 'T')}) {
    write_file(rig.tmp / "x.pack", text);
    CHECK_FALSE(rig.open("x.pack"));
    CHECK(rig.why == rig.tmp / "x.pack" + " is not a pack");
  }
  fs::create_directory(rig.tmp / "d.pack");
  CHECK_FALSE(rig.open("d.pack"));
  CHECK_FALSE(rig.open("absent.pack"));
  CHECK_FALSE(rig.open("absent.pack", std::string(64, 'a')));
  ::mkfifo((rig.tmp / "fifo.pack").c_str(), 0600);
  CHECK_FALSE(rig.open("fifo.pack", std::string(64, 'a')));
}

TEST_CASE(
    "cache pack: loose files need a pin; a pin that differs refuses; a pinned loose file is checked at each use") {
  Rig rig;
  const std::string pin = rig.pack("a.pack", {0, 1}).digest;
  CHECK(rig.open("a.pack", pin));
  CHECK_FALSE(rig.open("a.pack", std::string(64, '0')));
  CHECK(rig.why.find("not the pinned 0000") != std::string::npos);
  ::chmod((rig.tmp / "a.pack").c_str(), 0666);
  CHECK_FALSE(rig.open("a.pack"));
  CHECK(rig.why.find("is writable by other users") != std::string::npos);
  const auto pack = rig.open("a.pack", pin);
  REQUIRE(pack);
  for (std::uint64_t n = 0; n < 2; ++n) CHECK(pack->get(test_key(n)));
  // Somebody rewrites an entry, with a right inner checksum, after its first use.
  std::string bytes = file_text(rig.tmp / "a.pack");
  const PackIndex::Row& row = pack->index().rows[0];
  bytes[row.offset + row.size - 1] ^= 1;
  const auto resealed = hash128(bytes_of(bytes).subspan(row.offset + 24, row.size - 24));
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[row.offset + 8 + i] = static_cast<char>(resealed.high >> (8 * i));
    bytes[row.offset + 16 + i] = static_cast<char>(resealed.low >> (8 * i));
  }
  std::ofstream(rig.tmp / "a.pack", std::ios::in | std::ios::binary) << bytes;
  int hits = 0;
  for (std::uint64_t n = 0; n < 2; ++n) hits += pack->get(test_key(n)) ? 1 : 0;
  CHECK(hits == 1);
  CHECK(pack->damaged() == 1);
}

TEST_CASE("cache pack: as pinned layers they serve a sealed process without a root; a wrong pin is one warning") {
  Rig rig;
  const std::string pin = rig.pack("a.pack", {0, 1}).digest;
  rig.pack("b.pack", {1, 2});
  std::vector<std::string> lines;
  CacheSettings settings;
  settings.sink = [&](const std::string& line) { lines.push_back(line); };
  settings.mode = CacheMode::ro;
  settings.jit = JitMode::forbid;
  settings.layers = {{rig.tmp / "a.pack", pin}, {rig.tmp / "b.pack", ""}};
  const auto no_compile = []() -> Entry { throw std::runtime_error("compiled"); };
  {
    Cache cache(settings);
    for (std::uint64_t n = 0; n < 3; ++n)
      CHECK(cache.get_or_compile(test_key(n), no_compile) == test_entry(n, 200 + n));
    CHECK(cache.counters().layer == 3);
    CHECK(lines.empty());
  }
  settings.layers[0].sha256 = std::string(64, '1');
  Cache cache(settings);
  CHECK(lines.size() == 1);
  CHECK_THROWS_AS(cache.get_or_compile(test_key(0), no_compile), CacheError);
  CHECK(cache.get_or_compile(test_key(2), no_compile) == test_entry(2, 202));
}

TEST_CASE("cache pack: writing where it cannot be written is a CacheError, and an old pack stays") {
  Rig rig;
  rig.pack("a.pack", {0});
  CHECK_THROWS_AS(write_pack({}, rig.tmp / "no/such/a.pack"), CacheError);
  fs::create_directory(rig.tmp / "taken");
  write_file(rig.tmp / "taken/x", "x");
  CHECK_THROWS_AS(write_pack({}, rig.tmp / "taken"), CacheError);
  CHECK(std::ranges::none_of(files_below(rig.tmp.path()), [](const std::string& f) { return f.ends_with(".tmp"); }));
  CHECK(rig.open("a.pack")->get(test_key(0)));
}

}  // namespace
}  // namespace tileweave::cache
