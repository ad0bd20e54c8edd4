// The disk store: what is put is got, whole; whatever else lies in its directories is a miss and harms nobody.
#include "tileweave/cache/disk.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "temporary_directory.h"
#include "tileweave/cache/layout.h"
#include "tileweave/cache/sweep.h"

namespace tileweave::cache {
namespace {

namespace fs = std::filesystem;

struct Rig {
  TemporaryDirectory tmp;
  std::vector<std::string> warnings;
  Reporter reporter{[this](const std::string& line) { warnings.push_back(line); }};
  DiskOptions options;

  Rig() { options.root = tmp / "cache"; }
  std::unique_ptr<DiskStore> open() { return DiskStore::open(options, reporter); }
  std::string path_of(const Key& key) const { return options.root + "/v1/" + entry_path(key); }
};

TEST_CASE("cache disk: what is stored is read back by another store, whole; other keys miss") {
  Rig rig;
  {
    const auto store = rig.open();
    REQUIRE(store);
    CHECK_FALSE(store->get(test_key(1)));
    CHECK(store->put(test_key(1), test_entry(1)));
    CHECK(store->get(test_key(1)) == test_entry(1));
  }
  const auto again = rig.open();
  CHECK(again->get(test_key(1)) == test_entry(1));
  CHECK_FALSE(again->get(test_key(2)));
  CHECK(again->counts().bytes_read == fs::file_size(rig.path_of(test_key(1))));
  CHECK(rig.warnings.empty());
}

TEST_CASE("cache disk: the layout is the documented one, private, with nothing left in tmp") {
  Rig rig;
  const Key key = test_key(1);
  rig.open()->put(key, test_entry(1));
  const std::string profile = rig.options.root + "/v1/p/" + key.profile_id();
  CHECK(fs::is_regular_file(profile + "/" + key.address().hex().substr(0, 2) + "/" + key.address().hex().substr(2) +
                            ".entry"));
  CHECK(file_text(profile + "/profile.txt") ==
        "format=1\ncodegen=codegen\nllvm=19\ntarget=sm_80\nartefact=ptx\nassembler=none\n");
  CHECK(file_text(rig.options.root + "/CACHEDIR.TAG").starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
  CHECK(fs::is_empty(rig.options.root + "/v1/tmp"));
  for (const auto& f : fs::recursive_directory_iterator(rig.options.root + "/v1")) {
    CAPTURE(f.path());
    CHECK((fs::status(f.path()).permissions() & static_cast<fs::perms>(0077)) == fs::perms::none);
  }
}

TEST_CASE("cache disk: the first to publish wins, and the second is as good") {
  Rig rig;
  const auto store = rig.open();
  CHECK(store->put(test_key(1), test_entry(1)));
  CHECK(store->put(test_key(1), test_entry(2)));
  CHECK(store->get(test_key(1)) == test_entry(1));
  CHECK(fs::is_empty(rig.options.root + "/v1/tmp"));
}

TEST_CASE("cache disk: removed entries are gone") {
  Rig rig;
  const auto store = rig.open();
  store->put(test_key(1), test_entry(1));
  store->remove(test_key(1));
  CHECK_FALSE(store->get(test_key(1)));
  store->remove(test_key(1));  // again: nothing happens
  CHECK(store->put(test_key(1), test_entry(1)));
}

TEST_CASE("cache disk: a moved cache still hits, also read-only") {
  Rig rig;
  rig.open()->put(test_key(1), test_entry(1));
  fs::create_directories(rig.tmp / "elsewhere");
  fs::rename(rig.options.root, rig.tmp / "elsewhere/c");
  rig.options.root = rig.tmp / "elsewhere/c";
  rig.options.writable = false;
  const auto store = rig.open();
  REQUIRE(store);
  CHECK(store->get(test_key(1)) == test_entry(1));
  CHECK_FALSE(store->put(test_key(2), test_entry(2)));
  CHECK(entries_below(rig.options.root).size() == 1);
}

TEST_CASE("cache disk: a damaged entry is a miss, is removed, and can be stored again") {
  Rig rig;
  const auto store = rig.open();
  const std::string path = rig.path_of(test_key(1));
  store->put(test_key(1), test_entry(1));
  const std::string good = file_text(path);
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
    if (i % 3 == 1) bad.resize(random() % bad.size());
    if (i % 3 == 2) bad += "x";
    write_file(path, bad);
    REQUIRE_FALSE(store->get(test_key(1)));
    REQUIRE_FALSE(fs::exists(path));
    REQUIRE(store->put(test_key(1), test_entry(1)));
    REQUIRE(store->get(test_key(1)) == test_entry(1));
  }
  CHECK(store->counts().damaged == 300);
}

TEST_CASE("cache disk: an intact entry under another key's name is a miss and stays") {
  Rig rig;
  const auto store = rig.open();
  store->put(test_key(1), test_entry(1));
  store->put(test_key(2), test_entry(2));
  fs::copy_file(rig.path_of(test_key(1)), rig.path_of(test_key(2)), fs::copy_options::overwrite_existing);
  CHECK_FALSE(store->get(test_key(2)));
  CHECK(store->counts().other_key == 1);
  CHECK(fs::exists(rig.path_of(test_key(2))));
}

TEST_CASE("cache disk: addresses of 4 bits collide as misses, never as hits") {
  Rig rig;
  set_address_bits_for_test(4);
  std::vector<Key> keys;
  for (std::uint64_t i = 0; i < 200; ++i) keys.push_back(test_key(i));
  set_address_bits_for_test(128);
  const auto store = rig.open();
  for (std::uint64_t i = 0; i < 200; ++i) store->put(keys[i], test_entry(i));
  std::size_t hits = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto entry = store->get(keys[i]);
    if (!entry) continue;
    ++hits;
    CHECK(*entry == test_entry(i));
  }
  CHECK(hits <= 16);
  CHECK(hits == entries_below(rig.options.root).size());
  CHECK(store->counts().other_key == 200 - hits);
}

// Puts something that is no entry at the path.
using Planter = void (*)(const std::string& path);
const std::vector<std::pair<const char*, Planter>> planters = {
    {"empty file", [](const std::string& p) { write_file(p, ""); }},
    {"directory", [](const std::string& p) { fs::create_directory(p); }},
    {"dangling link", [](const std::string& p) { fs::create_symlink("/nonexistent/x", p); }},
    {"link to a file", [](const std::string& p) { fs::create_symlink("/etc/passwd", p); }},
    {"loop of links", [](const std::string& p) { fs::create_symlink(p, p); }},
    {"fifo", [](const std::string& p) { ::mkfifo(p.c_str(), 0600); }},
    {"socket",
     [](const std::string& p) {
       const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
       const std::string short_name = p.substr(p.rfind('/') + 1);
       const fs::path before = fs::current_path();
       fs::current_path(fs::path(p).parent_path());  // socket paths are short
       struct sockaddr_un address = {};
       address.sun_family = AF_UNIX;
       short_name.copy(address.sun_path, sizeof(address.sun_path) - 1);
       (void)::bind(fd, reinterpret_cast<const struct sockaddr*>(&address), sizeof(address));
       fs::current_path(before);
       ::close(fd);
     }},
    {"world-writable file",
     [](const std::string& p) {
       write_file(p, "x");
       ::chmod(p.c_str(), 0666);
     }},
};

TEST_CASE("cache disk: orphans and oddities in an entry's place are misses; all but a directory are replaced") {
  for (const auto& [name, plant] : planters) {
    CAPTURE(name);
    Rig rig;
    const auto store = rig.open();
    store->put(test_key(1), test_entry(1));
    const std::string path = rig.path_of(test_key(1));
    fs::remove(path);
    plant(path);
    REQUIRE(fs::symlink_status(path).type() != fs::file_type::not_found);
    CHECK_FALSE(store->get(test_key(1)));
    const bool stored = store->put(test_key(1), test_entry(1));
    CHECK(stored == (std::string_view(name) != "directory"));
    CHECK(store->get(test_key(1)).has_value() == stored);
    CHECK(store->put(test_key(2), test_entry(2)));
    CHECK(store->get(test_key(2)) == test_entry(2));
  }
  CHECK(fs::file_size("/etc/passwd") > 0);
}

TEST_CASE("cache disk: oddities in every directory leave hits, stores and the sweep working, and the walk names them") {
  Rig rig;
  const auto store = rig.open();
  store->put(test_key(1), test_entry(1));
  const std::string v1 = rig.options.root + "/v1";
  const std::string shard = fs::path(rig.path_of(test_key(1))).parent_path();
  std::size_t planted = 0;
  for (const std::string& directory : {v1, v1 + "/tmp", v1 + "/p", v1 + "/p/" + test_key(1).profile_id(), shard}) {
    for (const auto& [name, plant] : planters) {
      plant(directory + "/" + name);
      ++planted;
    }
  }
  CHECK(store->get(test_key(1)) == test_entry(1));
  CHECK(store->put(test_key(3), test_entry(3)));
  std::size_t oddities = 0, entries = 0;
  walk(store->version_directory_descriptor(), [&](const FoundFile& f) {
    oddities += f.kind == FoundFile::Kind::oddity ? 1 : 0;
    entries += f.kind == FoundFile::Kind::entry ? 1 : 0;
    return true;
  });
  CHECK(oddities == planted);
  CHECK(entries == 2);
  const SweepResult swept = sweep(store->version_directory_descriptor(), {1, 0, 2000000000, false, {}});
  CHECK(swept.removed_entries == 2);
  for (const auto& [name, plant] : planters)
    CHECK(fs::symlink_status(shard + "/" + name).type() != fs::file_type::not_found);
}

TEST_CASE("cache disk: a link in a directory's place is not followed") {
  Rig rig;
  const auto store = rig.open();
  store->put(test_key(1), test_entry(1));
  const std::string shard = fs::path(rig.path_of(test_key(1))).parent_path();
  fs::rename(shard, rig.tmp / "outside");
  fs::create_directory_symlink(rig.tmp / "outside", shard);
  CHECK_FALSE(store->get(test_key(1)));
}

TEST_CASE("cache disk: deleting everything under a running store is survived") {
  Rig rig;
  const auto store = rig.open();
  store->put(test_key(1), test_entry(1));
  fs::remove_all(rig.options.root + "/v1/tmp");
  fs::remove_all(rig.options.root + "/v1/p");
  CHECK_FALSE(store->get(test_key(1)));
  CHECK(store->put(test_key(1), test_entry(1)));
  CHECK(store->get(test_key(1)) == test_entry(1));
  fs::remove_all(rig.options.root);
  CHECK_FALSE(store->get(test_key(1)));
  CHECK_FALSE(store->put(test_key(1), test_entry(1)));
  CHECK(store->counts().not_stored == 1);
  CHECK(rig.warnings.empty());
}

TEST_CASE("cache disk: a hit refreshes an old entry's time and leaves a young one's") {
  Rig rig;
  const auto store = rig.open();
  store->put(test_key(1), test_entry(1));
  const std::string path = rig.path_of(test_key(1));
  const auto now = fs::file_time_type::clock::now();
  const auto young = now - std::chrono::hours(23);
  fs::last_write_time(path, young);
  store->get(test_key(1));
  CHECK(fs::last_write_time(path) == young);
  fs::last_write_time(path, now - std::chrono::hours(25));
  store->get(test_key(1));
  CHECK(fs::last_write_time(path) > now - std::chrono::hours(1));
}

TEST_CASE("cache sweep: the least recently used go first, down to four fifths; old temporaries go, others stay") {
  Rig rig;
  rig.options.max_bytes = 0;
  const auto store = rig.open();
  const auto now = fs::file_time_type::clock::now();
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    store->put(test_key(i), test_entry(i, 1000));
    fs::last_write_time(rig.path_of(test_key(i)), now - std::chrono::hours(i == 9 ? -500 : 100 - static_cast<int>(i)));
    bytes += fs::file_size(rig.path_of(test_key(i)));
  }
  const std::string old_temporary = rig.options.root + "/v1/tmp/" + std::string(32, 'a');
  const std::string new_temporary = rig.options.root + "/v1/tmp/" + std::string(32, 'b');
  write_file(old_temporary, "x");
  write_file(new_temporary, "x");
  fs::last_write_time(old_temporary, now - std::chrono::hours(2));
  const int version = store->version_directory_descriptor();

  SweepRules rules = rules_for_cap(bytes);
  CHECK(sweep(version, rules).removed_entries == 0);  // exactly at the cap
  CHECK_FALSE(fs::exists(old_temporary));
  CHECK(fs::exists(new_temporary));
  rules = rules_for_cap(bytes - 1);
  rules.dry_run = true;
  CHECK(sweep(version, rules).removed_entries == 3);
  CHECK(entries_below(rig.options.root).size() == 10);
  rules.dry_run = false;
  const SweepResult swept = sweep(version, rules);
  CHECK(swept.removed_entries == 3);
  CHECK(swept.entries == 10);
  for (std::uint64_t i = 0; i < 10; ++i) CHECK(store->get(test_key(i)).has_value() == (i > 2));
}

// Asks without taking the lock, which could turn the one waiting away.
bool is_locked(const std::string& locks, std::uint64_t byte) {
  const File file(::open(locks.c_str(), O_RDWR | O_CLOEXEC));
  struct flock question = {};
  question.l_type = F_WRLCK;
  question.l_start = static_cast<off_t>(byte);
  question.l_len = 1;
  REQUIRE(::fcntl(file.get(), F_OFD_GETLK, &question) == 0);
  return question.l_type != F_UNLCK;
}

TEST_CASE("cache sweep: one at a time; one may wait for it, which covers all who come after, so these leave") {
  Rig rig;
  rig.options.max_bytes = 0;
  const auto store = rig.open();
  for (std::uint64_t i = 0; i < 5; ++i) store->put(test_key(i), test_entry(i, 1000));
  const int version = store->version_directory_descriptor();
  std::optional<SweepResult> waited;
  std::thread waiter;
  {
    const auto running = store->lock_file();  // another process sweeps
    REQUIRE(running->try_lock(sweep_byte) == LockFile::Outcome::held);
    waiter = std::thread([&] { waited = sweep_alone(version, rules_for_cap(1), 0600); });
    while (!is_locked(rig.options.root + "/v1/locks", next_sweep_byte)) std::this_thread::yield();
    CHECK_FALSE(sweep_alone(version, rules_for_cap(1), 0600));  // the waiter will see what this caller stored
    CHECK(entries_below(rig.options.root).size() == 5);
  }
  waiter.join();
  REQUIRE(waited);
  CHECK(waited->removed_entries == 5);
  CHECK(sweep_alone(version, rules_for_cap(1), 0600));  // nothing is held any more
}

TEST_CASE("cache disk: the cap holds while storing, and entries over a quarter of it are not stored") {
  Rig rig;
  const std::size_t payload = 1000;
  rig.options.max_bytes = 4 * (payload + 300);
  const auto store = rig.open();
  for (std::uint64_t i = 0; i < 300; ++i) CHECK(store->put(test_key(i), test_entry(i, payload)));
  std::uint64_t bytes = 0;
  for (const std::string& f : entries_below(rig.options.root)) bytes += fs::file_size(f);
  CHECK(bytes <= rig.options.max_bytes * 11 / 10);
  CHECK(bytes > 0);
  CHECK_FALSE(store->put(test_key(1000), test_entry(1, payload * 2)));
  CHECK(store->counts().evicted > 250);
}

TEST_CASE("cache disk: visit yields every intact entry and stops when told") {
  Rig rig;
  const auto store = rig.open();
  for (std::uint64_t i = 0; i < 5; ++i)
    store->put(test_key(i, "k" + std::to_string(i)), test_entry(i, 100, "k" + std::to_string(i)));
  write_file(rig.path_of(test_key(3)), "damaged");
  std::vector<std::string> names;
  store->visit([&](const EntryInfo& info) {
    names.push_back(info.key.kernel_name());
    CHECK(info.payload_bytes == 100);
    CHECK(fs::exists(info.place));
    return true;
  });
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"k0", "k1", "k2", "k4"});
  int seen = 0;
  store->visit([&](const EntryInfo&) { return ++seen < 2; });
  CHECK(seen == 2);
}

TEST_CASE("cache file: no write goes beyond a file-size limit, whatever the signal's setting") {
  // The limit is the whole process's, so a child tries it; SIGXFSZ at its default would kill it.
  TemporaryDirectory tmp;
  const pid_t child = ::fork();
  if (child == 0) {
    Reporter quiet([](const std::string&) {});
    DiskOptions options;
    options.root = tmp / "cache";
    const auto store = DiskStore::open(options, quiet);
    const struct rlimit limit = {4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool large = store->put(test_key(1), test_entry(1, 10000));
    const bool small = store->put(test_key(2), test_entry(2, 100));
    ::_exit(!large && small ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(entries_below(tmp / "cache").size() == 1);
  CHECK(fs::is_empty(tmp / "cache/v1/tmp"));
}

}  // namespace
}  // namespace tileweave::cache
