// The commands' functions: what they report about good and bad roots, packs and files, and that they remove nothing
// else.
#include "tileweave/cache/inspect.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "temporary_directory.h"
#include "tileweave/cache/cache.h"
#include "tileweave/cache/layout.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

Key key_for(const std::string& target, std::uint64_t n, const std::string& kernel) {
  return KeyWriter({"3f2a", "19", target, "cubin", "ptxas"}).natural("num_warps", n).finish(kernel);
}

struct Rig {
  TemporaryDirectory tmp;
  Reporter quiet{[](const std::string&) {}};
  std::unique_ptr<DiskStore> root;

  Rig() {
    DiskOptions options;
    options.root = tmp / "cache";
    options.max_bytes = 0;
    root = DiskStore::open(options, quiet);
    for (std::uint64_t n : {1, 2, 4}) root->put(key_for("sm_80", n, "matmul"), test_entry(n, 100, "matmul"));
    root->put(key_for("sm_90a", 4, "add"), test_entry(9, 500, "add"));
  }
  std::string path_of(const Key& key) const { return tmp / "cache/v1/" + entry_path(key); }
  std::vector<Store*> stores() { return {root.get()}; }
};

std::string field(const FileReport& report, const std::string& name) {
  for (const auto& [n, value] : report.fields) {
    if (n == name) return value;
  }
  return "(none)";
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const CacheError& e) {
    return e.diagnostic().message;
  }
  return "no error";
}

TEST_CASE("cache inspect: a summary counts by profile and names what does not belong") {
  Rig rig;
  fs::create_symlink("/etc/passwd", rig.tmp / "cache/v1/p/link");
  write_file(rig.tmp / "cache/v1/tmp/" + std::string(32, 'a'), "x");
  const RootSummary s = summarize(*rig.root);
  CHECK(s.entries == 4);
  CHECK(s.temporaries == 1);
  CHECK(s.locks_work);
  CHECK(s.free_bytes > 0);
  CHECK_FALSE(s.file_system.empty());
  REQUIRE(s.profiles.size() == 2);
  std::uint64_t bytes = 0;
  for (const std::string& f : entries_below(rig.tmp / "cache")) bytes += fs::file_size(f);
  CHECK(s.bytes == bytes);
  for (const auto& line : s.profiles) {
    const bool is_80 = line.profile.id == key_for("sm_80", 1, "").profile_id();
    CHECK(line.profile.entries == (is_80 ? 3 : 1));
    CHECK(profile_field(line.profile.text, "target") == (is_80 ? "sm_80" : "sm_90a"));
    CHECK(profile_field(line.profile.text, "codegen") == "3f2a");
  }
  REQUIRE(s.oddities.size() == 1);
  CHECK(s.oddities[0].path == "p/link");
  CHECK(s.oddities[0].what == "a link; the cache follows none");
}

TEST_CASE("cache inspect: the list is by kernel and holds every intact entry") {
  Rig rig;
  const auto stores = rig.stores();
  const auto all = list_entries(stores);
  REQUIRE(all.size() == 4);
  CHECK(all[0].key.kernel_name() == "add");
  CHECK(all[0].payload_bytes == 500);
  CHECK(all[3].key.kernel_name() == "matmul");
}

TEST_CASE("cache inspect: verify finds damage, foreign names and foreign profiles, and spares what is intact") {
  Rig rig;
  CHECK(verify_root(*rig.root).intact == 4);
  CHECK(verify_root(*rig.root).bad.empty());
  std::string bytes = file_text(rig.path_of(key_for("sm_80", 1, "")));
  bytes.back() ^= 1;
  write_file(rig.path_of(key_for("sm_80", 1, "")), bytes);
  const std::string intact = rig.path_of(key_for("sm_80", 2, ""));
  fs::copy_file(intact, fs::path(intact).parent_path() / (std::string(30, '0') + ".entry"));
  fs::create_directories(fs::path(rig.path_of(key_for("sm_90a", 2, ""))).parent_path());
  fs::copy_file(intact, rig.path_of(key_for("sm_90a", 2, "")));
  const VerifyResult v = verify_root(*rig.root);
  CHECK(v.intact == 3);
  REQUIRE(v.bad.size() == 3);
  std::vector<std::string> what;
  for (const Oddity& o : v.bad) what.push_back(o.what.substr(0, 25));
  std::ranges::sort(what);
  CHECK(what == std::vector<std::string>{"an entry of profile " + key_for("sm_80", 1, "").profile_id().substr(0, 5),
                                         "an entry under another's ", "damaged: the checksum dif"});
  CHECK(fs::exists(rig.path_of(key_for("sm_80", 1, ""))));  // verifying removes nothing
}

TEST_CASE("cache inspect: files are described by their content, and refused with a reason") {
  Rig rig;
  const Key key = key_for("sm_90a", 4, "add");
  const FileReport entry = inspect_file(rig.path_of(key));
  CHECK(entry.kind == "entry");
  CHECK(field(entry, "kernel") == "add");
  CHECK(field(entry, "address") == key.address().hex());
  CHECK(field(entry, "key: num_warps") == "4");
  CHECK(field(entry, "key: target") == "\"sm_90a\"");
  CHECK(field(entry, "payload bytes") == "500");
  const auto stores = rig.stores();
  const PackSummary made = write_pack(stores, rig.tmp / "a.pack");
  const FileReport pack = inspect_file(rig.tmp / "a.pack");
  CHECK(pack.kind == "pack");
  CHECK(field(pack, "digest") == made.digest);
  CHECK(field(pack, "entries") == "4");
  CHECK(field(pack, "profile " + key.profile_id()) == "1 entries, codegen 3f2a, target sm_90a");

  write_file(rig.tmp / "x", "nonsense");
  CHECK(error_of([&] { inspect_file(rig.tmp / "x"); }) == rig.tmp / "x is shorter than a header");
  CHECK(error_of([&] { inspect_file(rig.tmp / "none"); }) ==
        "cannot read " + (rig.tmp / "none") + ": No such file or directory");
  CHECK(error_of([&] { inspect_file("/dev/zero"); }) == "/dev/zero is not a regular file");
  std::string cut = file_text(rig.tmp / "a.pack");
  cut.resize(cut.size() - 1);
  write_file(rig.tmp / "cut.pack", cut);
  CHECK(error_of([&] { inspect_file(rig.tmp / "cut.pack"); }).find("is cut short or damaged") != std::string::npos);
}

TEST_CASE("cache inspect: an entry is found by the start of its address and explained against its variants") {
  Rig rig;
  const auto stores = rig.stores();
  const Key key = key_for("sm_80", 2, "matmul");
  const auto entry = find_by_address(stores, key.address().hex().substr(0, 12));
  REQUIRE(entry);
  CHECK(entry->key == key);
  CHECK_FALSE(find_by_address(stores, ""));  // not unique
  CHECK_FALSE(find_by_address(stores, "zz"));
  rig.root->put(key_for("sm_90a", 8, "matmul"), test_entry(1, 10, "matmul"));
  const auto variants = explain_variants(stores, *entry);
  REQUIRE(variants.size() == 3);
  CHECK(variants[0].differences.size() == 1);
  CHECK(variants[0].differences[0].field == "num_warps");
  CHECK(variants[2].differences.size() == 2);
  CHECK(variants[2].differences[0].field == "target");
}

TEST_CASE("cache inspect: gc drops dead profiles whole, then keeps the cap; a dry run says the same and does nothing") {
  for (const bool dry_run : {true, false}) {
    Rig rig;
    const std::set<std::string> keep = {key_for("sm_90a", 1, "").profile_id()};
    const SweepResult r = collect_garbage(*rig.root, 1 << 20, keep, dry_run);
    CHECK(r.entries == 4);
    CHECK(r.removed_entries == 3);
    CHECK(entries_below(rig.tmp / "cache").size() == (dry_run ? 4 : 1));
    CHECK(fs::exists(rig.tmp / "cache/v1/p/" + key_for("sm_80", 1, "").profile_id()) == dry_run);
  }
  Rig rig;
  CHECK(collect_garbage(*rig.root, 0, std::nullopt, false).removed_entries == 0);
  CHECK(collect_garbage(*rig.root, 1, std::nullopt, false).removed_entries == 4);
}

TEST_CASE("cache inspect: clear removes entries and temporaries, and nothing it does not know") {
  Rig rig;
  const std::string profile = rig.tmp / "cache/v1/p/" + key_for("sm_80", 1, "").profile_id();
  write_file(profile + "/notes", "mine");
  write_file(rig.tmp / "cache/mine", "mine");
  fs::create_directory_symlink(rig.tmp.path(), rig.tmp / "cache/v1/tmp/link");
  CHECK(clear_root(*rig.root, true).removed_entries == 4);
  CHECK(entries_below(rig.tmp / "cache").size() == 4);
  CHECK(clear_root(*rig.root, false).removed_entries == 4);
  CHECK(entries_below(rig.tmp / "cache").empty());
  CHECK(file_text(profile + "/notes") == "mine");
  CHECK(fs::exists(rig.tmp / "cache/mine"));
  CHECK_FALSE(fs::exists(rig.tmp / "cache/v1/p/" + key_for("sm_90a", 1, "").profile_id()));
  CHECK(rig.root->put(test_key(1), test_entry(1)));
  CHECK(rig.root->get(test_key(1)) == test_entry(1));
}

TEST_CASE("cache inspect: unpack and diff are inverse to pack") {
  Rig rig;
  const auto stores = rig.stores();
  write_pack(stores, rig.tmp / "a.pack");
  std::string why;
  const auto pack = PackStore::open(rig.tmp / "a.pack", "", TrustPolicy::of_this_process(), why);
  REQUIRE(pack);
  CHECK(verify_pack(*pack).intact == 4);
  DiskOptions options;
  options.root = rig.tmp / "second";
  const auto second = DiskStore::open(options, rig.quiet);
  CHECK(unpack(*pack, *second).stored == 4);
  CHECK(diff_stores(*rig.root, *second).is_empty());
  second->remove(key_for("sm_80", 1, ""));
  second->put(test_key(1), test_entry(1));
  second->remove(key_for("sm_80", 2, ""));
  second->put(key_for("sm_80", 2, "matmul"), test_entry(3, 100, "matmul"));
  const StoreDifference d = diff_stores(*rig.root, *second);
  REQUIRE(d.only_left.size() == 1);
  CHECK(d.only_left[0].key == key_for("sm_80", 1, ""));
  REQUIRE(d.only_right.size() == 1);
  CHECK(d.only_right[0].key == test_key(1));
  REQUIRE(d.other_payload.size() == 1);
  CHECK(d.other_payload[0].key == key_for("sm_80", 2, ""));
}

TEST_CASE("cache inspect: a layer without anything for this process is reported once, with both tool chains") {
  Rig rig;
  const auto stores = rig.stores();
  write_pack(stores, rig.tmp / "a.pack");
  for (const std::string layer : {"a.pack", "cache"}) {
    std::vector<std::string> lines;
    CacheSettings settings;
    settings.sink = [&](const std::string& line) { lines.push_back(line); };
    settings.layers = {{rig.tmp / layer, ""}};
    Cache cache(settings);
    const Profile ours{"9c01", "19", "sm_89", "cubin", "ptxas"}, stored{"3f2a", "19", "sm_80", "cubin", "ptxas"};
    const Profile both[] = {ours, stored}, one[] = {ours};
    cache.announce(both);
    CHECK(lines.empty());
    cache.announce(one);
    cache.announce(one);
    REQUIRE(lines.size() == 1);
    CHECK(
        lines[0].starts_with("tileweave: warning: cache: " + (rig.tmp / layer) + " holds nothing for this process: "));
    CHECK(lines[0].ends_with("; this process is codegen 9c01, target sm_89"));
    CHECK(lines[0].find("entries for codegen 3f2a, target sm_") != std::string::npos);
  }
}

TEST_CASE("cache inspect: every command over a root of mutated files stays inside it and finds the intact ones") {
  Rig rig;
  write_file(rig.tmp / "outside", "outside");
  const Key key = key_for("sm_80", 1, "matmul");
  const std::string good = file_text(rig.path_of(key));
  const std::string shard = fs::path(rig.path_of(key)).parent_path();
  std::mt19937 random(31);
  const int count = env().long_tests ? 20000 : 1000;
  for (int i = 0; i < count; ++i) {
    std::string bad = good;
    for (unsigned edits = 1 + random() % 4; edits > 0 && !bad.empty(); --edits) {
      bad[random() % bad.size()] = static_cast<char>(random());
      if (random() % 4 == 0) bad.resize(random() % (bad.size() + 1));
    }
    std::string name = hash128(std::as_bytes(std::span(&i, 1))).hex().substr(0, 30) + ".entry";
    write_file(shard + "/" + name, bad == good ? "" : bad);
  }
  for (int i = 0; i < 20; ++i)
    fs::create_symlink(rig.tmp / "outside", shard + "/" + std::string(28, 'e') + std::to_string(10 + i) + ".entry");
  const auto stores = rig.stores();
  CHECK(summarize(*rig.root).entries == static_cast<std::uint64_t>(count) + 4);
  CHECK(list_entries(stores).size() == 4);
  const VerifyResult v = verify_root(*rig.root);
  CHECK(v.intact == 4);
  CHECK(v.bad.size() == static_cast<std::size_t>(count) + 20);
  for (const std::string& f : entries_below(shard)) {
    try {
      (void)inspect_file(f);
    } catch (const CacheError&) {  // the only thing it may throw
    }
  }
  (void)collect_garbage(*rig.root, 1, std::nullopt, false);
  (void)clear_root(*rig.root, false);
  CHECK(entries_below(rig.tmp / "cache").empty());
  CHECK(file_text(rig.tmp / "outside") == "outside");
}

}  // namespace
}  // namespace tileweave::cache
