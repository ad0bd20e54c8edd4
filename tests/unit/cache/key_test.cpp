// The key: every field counts, no two field lists share a blob, hostile blobs are refused, differences are named.
#include "tileweave/cache/key.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "tileweave/cache/bytes.h"

namespace tileweave::cache {
namespace {

Profile some_profile() { return {"3f2a", "19.1.7", "sm_90a+ptx8.6", "cubin", "ptxas 13.0"}; }

// Settings as a caller has them; each field is listed once in `flips`, so that one flip at a time can be tried.
struct Settings {
  Profile profile = some_profile();
  bool checked = false;
  std::uint64_t warps = 4;
  std::int64_t shift = -1;
  float scale = 0.0F;
  double epsilon = 1e-5;
  std::string ir = "func(a)";
  std::vector<std::byte> table = {std::byte{1}};

  Key key() const {
    KeyWriter w(profile);
    w.boolean("checked", checked).natural("warps", warps).integer("shift", shift).real("scale", scale);
    w.real("epsilon", epsilon).text("ir", ir).bytes("table", table);
    return w.finish("k");
  }
};

const std::vector<std::pair<std::string, std::function<void(Settings&)>>> flips = {
    {"codegen", [](Settings& s) { s.profile.codegen = "3f2b"; }},
    {"llvm", [](Settings& s) { s.profile.llvm = "19.1.8"; }},
    {"target", [](Settings& s) { s.profile.target = "sm_90+ptx8.6"; }},
    {"artefact", [](Settings& s) { s.profile.artefact = "ptx"; }},
    {"assembler", [](Settings& s) { s.profile.assembler = "ptxas 13.1"; }},
    {"checked", [](Settings& s) { s.checked = true; }},
    {"warps", [](Settings& s) { s.warps = 8; }},
    {"shift", [](Settings& s) { s.shift = 1; }},
    {"scale", [](Settings& s) { s.scale = -0.0F; }},
    {"epsilon", [](Settings& s) { s.epsilon = std::nextafter(1e-5, 1.0); }},
    {"ir", [](Settings& s) { s.ir = "func(b)"; }},
    {"table", [](Settings& s) { s.table.push_back(std::byte{0}); }},
};

TEST_CASE("cache key: flipping any one field changes blob and address, and the field is named") {
  const Key base = Settings().key();
  for (const auto& [field, flip] : flips) {
    CAPTURE(field);
    Settings s;
    flip(s);
    const Key other = s.key();
    CHECK_FALSE(other == base);
    CHECK(other.address() != base.address());
    const auto all = differences(base, other);
    REQUIRE(all.size() == 1);
    CHECK(all[0].field == field);
    CHECK(all[0].ours != all[0].theirs);
  }
}

TEST_CASE("cache key: equal settings give equal keys; the kernel's name is not part of them") {
  const Key a = Settings().key(), b = Settings().key();
  CHECK(a == b);
  CHECK(a.address() == b.address());
  CHECK_FALSE(first_difference(a, b));
  const Key named = KeyWriter(some_profile()).finish("one"), other = KeyWriter(some_profile()).finish("two");
  CHECK(named == other);
}

TEST_CASE("cache key: the blob of one key is fixed, byte for byte, on every machine and in every release") {
  KeyWriter w({"c", "l", "t", "a", "s"});
  w.natural("n", 0x0102).text("t", "x");
  const Key key = w.finish("k");
  const std::string hex = hex_of(key.blob());
  CHECK(hex.substr(0, 54) ==
        "0206000000666f726d617408000000000000000100000000000000"
        "");
  CHECK(hex.substr(hex.size() - 74) ==
        "02010000006e08000000000000000201000000000000"
        "060100000074010000000000000078");
  CHECK(key.address().hex() == hash128(key.blob()).hex());
}

TEST_CASE("cache key: settings that differ by bits only, such as -0 and other NaNs, are other keys") {
  const auto with = [](double value) {
    KeyWriter w(some_profile());
    w.real("x", value);
    return w.finish("k");
  };
  CHECK_FALSE(with(0.0) == with(-0.0));
  const double quiet = std::numeric_limits<double>::quiet_NaN();
  CHECK(with(quiet) == with(quiet));
  CHECK_FALSE(with(quiet) == with(-quiet));
  CHECK(first_difference(with(0.1), with(0.2))->ours == "0.1");
}

TEST_CASE("cache key: names and values with separators, NUL, newlines and 64 KiB never run together") {
  const auto two = [](std::string_view a, std::string_view b) {
    KeyWriter w(some_profile());
    w.text(a, "v").text(b, "v");
    return w.finish("k");
  };
  CHECK_FALSE(two("a", "bc") == two("ab", "c"));
  CHECK_FALSE(two("a,b", "c") == two("a", "b,c"));
  const std::string odd = std::string("a\0b\n,\xc3\xa4", 7) + std::string(65536, 'x');
  KeyWriter w(some_profile());
  w.text(odd, odd).text("", "").bytes("", {});
  const Key key = w.finish(odd);
  const auto back = Key::parse(key.blob(), odd);
  REQUIRE(back);
  CHECK(*back == key);
  CHECK(back->address() == key.address());
}

TEST_CASE("cache key: random lists of fields have equal keys only where they are equal") {
  std::mt19937 random(1);
  std::set<std::vector<std::string>> lists;
  std::set<std::string> blobs;
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::string> list(random() % 4);
    KeyWriter w(some_profile());
    for (std::string& text : list) {
      for (unsigned n = random() % 3; n > 0; --n) text += "ab\0,"[random() % 4];
    }
    for (const std::string& text : list) w.text("f", text);
    lists.insert(list);
    blobs.insert(std::string(text_of(w.finish("k").blob())));
  }
  CHECK(lists.size() == blobs.size());
}

TEST_CASE("cache key: the profile comes back from the blob and decides the directory") {
  const Key key = Settings().key();
  CHECK(key.profile() == some_profile());
  CHECK(key.profile_id() == some_profile().id());
  CHECK(key.profile_id().size() == 16);
  Settings s;
  s.warps = 16;
  CHECK(s.key().profile_id() == key.profile_id());
  s.profile.target = "x86-64-v3";
  CHECK(s.key().profile_id() != key.profile_id());
}

TEST_CASE("cache key: a blob that is cut, extended or altered is refused or is another key") {
  const Key key = Settings().key();
  std::vector<std::byte> blob(key.blob().begin(), key.blob().end());
  std::size_t whole_prefixes = 0;
  for (std::size_t n = 0; n < blob.size(); ++n) {
    // A cut between two fields after the profile is a key of fewer fields: well formed, and not equal.
    const auto cut = Key::parse(std::span(blob).first(n), "k");
    if (cut) ++whole_prefixes;
    if (cut) CHECK_FALSE(*cut == key);
  }
  CHECK(whole_prefixes == 7);  // after the profile and after each further field but the last
  blob.push_back(std::byte{0});
  CHECK_FALSE(Key::parse(blob, "k"));
  CHECK_FALSE(Key::parse(bytes_of("nonsense"), "k"));
}

TEST_CASE("cache key: mutated blobs never crash the reader and never equal the key") {
  const Key key = Settings().key();
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> blob(key.blob().begin(), key.blob().end());
    blob[random() % blob.size()] ^= static_cast<std::byte>(1 + random() % 255);
    const auto parsed = Key::parse(blob, "k");
    if (!parsed) continue;
    CHECK_FALSE(*parsed == key);
    CHECK_FALSE(differences(key, *parsed).empty());
  }
}

TEST_CASE("cache key: differences name absent fields and show long texts where they part") {
  KeyWriter a(some_profile()), b(some_profile());
  a.natural("warps", 4).text("ir", std::string(500, 'x') + "mul" + std::string(100, 'y'));
  b.text("ir", std::string(500, 'x') + "add" + std::string(100, 'y')).boolean("checked", true);
  const auto all = differences(a.finish("k"), b.finish("k"));
  REQUIRE(all.size() == 3);
  CHECK(all[0].field == "warps");
  CHECK(all[0].ours == "4");
  CHECK(all[0].theirs == "(absent)");
  CHECK(all[1].field == "ir");
  CHECK(all[1].ours == "...\"xxxxxxxxxxxxxxxxmul" + std::string(45, 'y') + "\"...");
  CHECK(all[1].theirs == "...\"xxxxxxxxxxxxxxxxadd" + std::string(45, 'y') + "\"...");
  CHECK(all[2].field == "checked");
  CHECK(all[2].ours == "(absent)");
  CHECK(all[2].theirs == "true");
}

TEST_CASE("cache key: the test hook makes addresses collide while keys stay different") {
  set_address_bits_for_test(4);
  std::set<std::string> addresses;
  std::vector<Key> keys;
  for (std::uint64_t i = 0; i < 200; ++i) keys.push_back(KeyWriter(some_profile()).natural("i", i).finish("k"));
  set_address_bits_for_test(128);
  for (const Key& k : keys) addresses.insert(k.address().hex());
  CHECK(addresses.size() <= 16);
  CHECK(addresses.size() > 8);
  CHECK_FALSE(keys[0] == keys[1]);
}

TEST_CASE("cache hash: text form and back; the reference value of empty input") {
  // XXH3_128bits of no bytes with seed 0, as the xxHash project's own test vectors state it.
  CHECK(hash128({}).hex() == "99aa06d3014798d86001c324468d497f");
  const Hash128 h = hash128(bytes_of("tileweave"));
  CHECK(Hash128::from_hex(h.hex()) == h);
  CHECK_FALSE(Hash128::from_hex("12"));
  CHECK_FALSE(Hash128::from_hex(std::string(32, 'g')));
  CHECK(bytes_of_hex("00fF") == std::string("\0\xff", 2));
  CHECK_FALSE(bytes_of_hex("0"));
}

}  // namespace
}  // namespace tileweave::cache
