// Manifests: what is recorded is read back, a cut tail costs only itself, and hostile bytes are read within bounds.
#include "tileweave/cache/manifest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "temporary_directory.h"
#include "tileweave/cache/bytes.h"
#include "tileweave/cache/inspect.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> file_of(const std::vector<Record>& records) {
  std::vector<std::byte> file = manifest_header();
  for (const Record& r : records) {
    const auto frame = encode_record(r);
    REQUIRE(frame);
    file.insert(file.end(), frame->begin(), frame->end());
  }
  return file;
}

std::vector<Record> some_records() {
  return {{"softmax", "func \"softmax\"() {\n}\n"}, {"add", ""}, {std::string("n\0\n,", 4), std::string(70000, 'x')}};
}

TEST_CASE("cache manifest: CRC-32C has the values of RFC 3720, appendix B.4") {
  std::vector<std::byte> bytes(32, std::byte{0});
  CHECK(crc32c(bytes) == 0x8a9136aaU);
  std::ranges::fill(bytes, std::byte{0xff});
  CHECK(crc32c(bytes) == 0x62a8ab43U);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(crc32c(bytes) == 0x46dd794eU);
  CHECK(crc32c(std::span(bytes).subspan(10), crc32c(std::span(bytes).first(10))) == 0x46dd794eU);
}

TEST_CASE("cache manifest: records come back whole and in order") {
  std::string why;
  const auto m = parse_manifest(file_of(some_records()), why);
  REQUIRE(m);
  CHECK(m->records == some_records());
  CHECK(m->cut_bytes == 0);
}

TEST_CASE("cache manifest: at every cut the whole records before it are read, and the rest is counted") {
  const auto file = file_of({{"a", "one"}, {"b", "two"}, {"c", "three"}});
  const std::size_t one = manifest_header().size(), two = one + encode_record({"a", "one"})->size();
  for (std::size_t n = 0; n <= file.size(); ++n) {
    std::string why;
    const auto m = parse_manifest(std::span(file).first(n), why);
    REQUIRE(m.has_value() == (n >= one));
    if (!m) continue;
    CHECK(m->records.size() == (n < two                                                   ? 0
                                : n < file.size() - encode_record({"c", "three"})->size() ? 1
                                : n < file.size()                                         ? 2
                                                                                          : 3));
    const bool is_whole = n == one || n == two || n == file.size() || m->cut_bytes == 0;
    CHECK((m->cut_bytes == 0) == is_whole);
  }
}

TEST_CASE("cache manifest: every flipped bit ends the reading at or before its record") {
  const auto file = file_of({{"a", "one"}, {"b", "two"}});
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    auto bad = file;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    std::string why;
    const auto m = parse_manifest(bad, why);
    if (bit / 8 < 8) {
      CHECK_FALSE(m);
      CHECK(why == "is not a manifest");
      continue;
    }
    REQUIRE(m);
    CHECK(m->records.size() < 2);
    CHECK(m->cut_bytes > 0);
  }
}

TEST_CASE("cache manifest: sizes that lie cost nothing") {
  for (const std::uint32_t size : {0xffffffffU, 0x7fffffffU, 1U << 24, (1U << 24) + 1}) {
    std::vector<std::byte> file = manifest_header();
    ByteWriter out(file);
    out.u32(size);
    out.u32(0);
    out.text("short");
    std::string why;
    const auto m = parse_manifest(file, why);
    REQUIRE(m);
    CHECK(m->records.empty());
    CHECK(m->cut_bytes == 13);
  }
  CHECK_FALSE(encode_record({"k", std::string(most_record_bytes, 'x')}));
}

TEST_CASE("cache manifest: mutated files never read outside of themselves") {
  const auto good = file_of(some_records());
  std::mt19937 random(9);
  const int count = env().long_tests ? 100000 : 2000;
  for (int i = 0; i < count; ++i) {
    auto file = std::vector<std::byte>(good.begin(), good.begin() + 200);
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      file[random() % file.size()] = static_cast<std::byte>(random());
    }
    if (random() % 3 == 0) file.resize(random() % file.size());
    std::string why;
    const auto m = parse_manifest(file, why);
    if (!m) continue;
    std::size_t bytes = m->cut_bytes + 8;
    for (const Record& r : m->records) bytes += encode_record(r)->size();
    CHECK(bytes == file.size());
  }
}

TEST_CASE("cache manifest: merging sorts and drops repetitions, whatever the order of the files") {
  const Manifest one{{{"b", "1"}, {"a", "2"}}, 0}, two{{{"a", "2"}, {"a", "1"}}, 5};
  const Manifest forward[] = {one, two}, backward[] = {two, one};
  const std::vector<Record> expected = {{"a", "1"}, {"a", "2"}, {"b", "1"}};
  CHECK(merge_records(forward) == expected);
  CHECK(merge_records(backward) == expected);
}

TEST_CASE("cache manifest: a process's own file is private, appended, and one of many") {
  TemporaryDirectory tmp;
  ManifestWriter first(tmp / "new"), second(tmp / "new");
  CHECK(first.append({"a", "1"}) == 0);
  CHECK(first.append({"b", "2"}) == 0);
  CHECK(second.append({"a", "1"}) == 0);
  CHECK(first.path() != second.path());
  CHECK(files_below(tmp / "new").size() == 2);
  CHECK(fs::status(first.path()).permissions() == static_cast<fs::perms>(0600));
  CHECK(read_manifest(first.path()).records == std::vector<Record>{{"a", "1"}, {"b", "2"}});
  // A record that was half written when the process died.
  const std::string text = file_text(first.path());
  write_file(tmp / "cut.rec", text.substr(0, text.size() - 3));
  CHECK(read_manifest(tmp / "cut.rec").records.size() == 1);
  CHECK(inspect_file(first.path()).kind == "manifest");
}

TEST_CASE("cache manifest: where nothing can be written the first record says why, and the rest is silent") {
  TemporaryDirectory tmp;
  write_file(tmp / "file", "x");
  ManifestWriter writer(tmp / "file/below");
  CHECK(writer.append({"a", "1"}) == ENOTDIR);
  CHECK(writer.append({"b", "2"}) == 0);
}

TEST_CASE("cache manifest: files that are none are refused with a reason; writing one is whole or not at all") {
  TemporaryDirectory tmp;
  write_file(tmp / "text", "not a manifest at all");
  for (const std::string& path : {tmp / "none", tmp / "text", tmp.path()}) {
    CHECK_THROWS_AS(read_manifest(path), CacheError);
  }
  write_manifest(tmp / "m.rec", some_records());
  CHECK(read_manifest(tmp / "m.rec").records == some_records());
  const Record huge[] = {{"k", std::string(most_record_bytes, 'x')}};
  CHECK_THROWS_AS(write_manifest(tmp / "m.rec", huge), CacheError);
  CHECK(read_manifest(tmp / "m.rec").records == some_records());
  CHECK(files_below(tmp.path()).size() == 2);
}

}  // namespace
}  // namespace tileweave::cache
