// Mutated entries, packs and manifests under everything that reads them: the store and its commands (stat, ls, verify,
// explain, gc, clear, inspect, unpack, diff, merge) and the parser and verifier of recorded tile IR.
// Usage: cache_mutations COUNT SEED. Where the checksum was not put right a mutation must be refused or change nothing;
// otherwise anything but a crash is right. Nothing outside of the root may change. Built with sanitizers for ./dev
// long.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/inspect.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/cache/report.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/function.h"

namespace {

using namespace tileweave;
using namespace tileweave::cache;
namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr int entries = 40, mutations_a_round = 100;
const char recorded_ir[] =
    "func \"scale\"(%0: view<const f32, 1>, %1: view<f32, 1>, %2: f32) {\n  %3 = program_id {axis = 0} : i64\n"
    "  %4 = load %0, %3 {extents = [64], pad = 0} : f32[64]\n  %5 = broadcast %2 {extents = [64]} : f32[64]\n"
    "  %6 = mul %4, %5 : f32[64]\n  store %1, %3, %6\n}\n";

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::exit(1);
}

Key key_of(int n) {
  KeyWriter w({"codegen", "19", "sm_90a", "cubin", "ptxas 13.0"});
  return w.boolean("aligned", n % 2 == 0)
      .natural("n", static_cast<std::uint64_t>(n))
      .text("ir", recorded_ir)
      .finish("k");
}
Entry entry_of(int n) {
  Entry e{"k", "meta", {}};
  for (int i = 0; i < 300 + 50 * n; ++i) e.payload.push_back(static_cast<std::byte>(i * n % 23));
  return e;
}

Bytes read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
void write(const fs::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// One or a few of: a bit, a byte, a number of 4 or 8 bytes at its extremes, a cut, a part doubled or left out.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  Bytes operator()(Bytes b) {
    for (std::size_t times = 1 + below(3); times > 0 && !b.empty(); --times) once(b);
    return b;
  }

 private:
  void once(Bytes& b) {
    const std::size_t at = below(b.size());
    const auto here = b.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = std::min(1 + below(40), b.size() - at);
    switch (below(7)) {
      case 0:
        b[at] ^= std::byte{1} << below(8);
        return;
      case 1:
        b[at] = static_cast<std::byte>(random_());
        return;
      case 2:
      case 3:
        return extreme(b, at);
      case 4:
        b.resize(at);
        return;
      case 5: {
        const Bytes part(here, here + static_cast<std::ptrdiff_t>(length));
        b.insert(here, part.begin(), part.end());
        return;
      }
      default:
        b.erase(here, here + static_cast<std::ptrdiff_t>(length));
    }
  }
  void extreme(Bytes& b, std::size_t at) {
    static constexpr std::uint64_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 63, ~0ULL, 1ULL << 32};
    const std::uint64_t v = values[below(std::size(values))];
    const std::size_t width = below(2) == 0 ? 4 : 8;
    if (at + width <= b.size()) std::memcpy(b.data() + at, &v, width);
  }
  std::mt19937_64 random_;
};

void reseal_entry(Bytes& file) {
  constexpr std::size_t from = 24;
  if (file.size() <= from) return;
  const Hash128 h = hash128(std::span<const std::byte>(file).subspan(from));
  std::memcpy(file.data() + 8, &h.high, 8);
  std::memcpy(file.data() + 16, &h.low, 8);
}
void reseal_manifest(Bytes& file) {
  for (std::size_t at = manifest_header().size(); at + 8 <= file.size();) {
    const auto frame = std::span<const std::byte>(file).subspan(at);
    const std::uint32_t size = ByteReader(frame).u32();
    if (size > frame.size() - 8) return;
    const std::uint32_t crc = crc32c(frame.subspan(8, size), crc32c(frame.first(4)));
    std::memcpy(file.data() + at + 4, &crc, 4);
    at += 8 + size;
  }
}

class Rig {
 public:
  Rig(int count, std::uint64_t seed) : count_(count), mutate_(seed), reporter_([](const std::string&) {}) {
    std::string pattern = (fs::temp_directory_path() / "tileweave_mutations_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) fail("no directory");
    top_ = pattern;
    fs::create_directory(top_ / "outside");
    write(top_ / "outside/file", Bytes(100, std::byte{7}));
    store_ = open();
    for (int n = 0; n < entries; ++n) {
      store_->put(key_of(n), entry_of(n));
      for (const auto& f : fs::recursive_directory_iterator(top_ / "root")) {
        if (f.path().extension() == ".entry") originals_.try_emplace(f.path(), n, read(f.path()));
      }
    }
    Store* const from[] = {store_.get()};
    (void)write_pack(from, (top_ / "whole.pack").string());
    pack_ = read(top_ / "whole.pack");
    manifest_ = manifest_header();
    for (const char* name : {"a", "b", "c"}) {
      const auto frame = encode_record({name, recorded_ir});
      manifest_.insert(manifest_.end(), frame->begin(), frame->end());
    }
    if (originals_.size() != entries) fail("not all entries were stored");
  }
  ~Rig() { fs::remove_all(top_); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  void run() {
    for (int done = 0; done < count_; done += mutations_a_round) {
      mutate_entries();
      use_root();
      for (int i = 0; i < mutations_a_round / 10; ++i) use_file();
    }
    if (read(top_ / "outside/file") != Bytes(100, std::byte{7})) fail("a file outside of the root changed");
    std::printf("%d mutated entries, %d mutated packs and manifests: %d entries refused, %d as they were\n", count_,
                count_ / 10, refused_, unchanged_);
  }

 private:
  std::unique_ptr<DiskStore> open() {
    DiskOptions options;
    options.root = (top_ / "root").string();
    options.max_bytes = 0;
    auto store = DiskStore::open(options, reporter_);
    if (!store) fail("the root does not open");
    return store;
  }

  // All entries of the root are new mutations of what they were; each is read by itself.
  void mutate_entries() {
    for (int i = 0; i < mutations_a_round;) {
      for (const auto& [path, original] : originals_) {
        if (i++ == mutations_a_round) break;
        const auto& [number, bytes] = original;
        Bytes mutated = mutate_(bytes);
        const bool sealed = mutate_.below(2) == 0;
        if (sealed) reseal_entry(mutated);
        fs::create_directories(path.parent_path());
        write(path, mutated);
        (void)try_inspect(path);
        if (!sealed) check_get(number);
      }
    }
  }
  // Refused, or what was put.
  void check_get(int number) {
    const auto entry = store_->get(key_of(number));
    (entry ? unchanged_ : refused_)++;
    if (entry && *entry != entry_of(number)) fail("a mutated entry was read");
  }
  void use_root() {
    store_ = open();
    Store* const stores[] = {store_.get()};
    (void)summarize(*store_);
    const auto listed = list_entries(stores);
    for (std::size_t i = 0; i < listed.size() && i < 5; ++i) (void)explain_variants(stores, listed[i]);
    const VerifyResult verified = verify_root(*store_);
    if (verified.intact > entries) fail("more entries intact than there are");
    (void)collect_garbage(*store_, 4000, {}, true);
    (void)find_by_address(stores, "0");
    if (mutate_.below(4) == 0) (void)collect_garbage(*store_, 4000, {}, false);
    if (mutate_.below(8) == 0) (void)clear_root(*store_, false);
    for (int n = 0; n < entries; ++n) (void)store_->get(key_of(n));  // drops what is damaged
  }
  void use_file() {
    const fs::path path = top_ / "odd";
    const bool is_pack = mutate_.below(2) == 0;
    Bytes mutated = mutate_(is_pack ? pack_ : manifest_);
    if (!is_pack && mutate_.below(3) > 0) reseal_manifest(mutated);
    write(path, mutated);
    (void)try_inspect(path);
    is_pack ? use_pack(path) : use_manifest(path);
  }
  void use_pack(const fs::path& path) {
    std::string why;
    const auto pack = PackStore::open(path.string(), {}, TrustPolicy::of_this_process(), why);
    if (!pack) return;
    // Its index is whole; each entry is what was packed, or refused at its use.
    for (int n = 0; n < entries; ++n) {
      const auto entry = pack->get(key_of(n));
      if (entry && *entry != entry_of(n)) fail("a mutated entry of a pack was read");
    }
    (void)verify_pack(*pack);
    (void)unpack(*pack, *store_);
    (void)diff_stores(*pack, *store_);
  }
  void use_manifest(const fs::path& path) {
    std::string why;
    const auto parsed = parse_manifest(read(path), why);
    if (!parsed) return;
    for (const Record& r : merge_records(std::span(&*parsed, 1))) {
      try {
        ir::verify(ir::parse(r.ir), ir::Stage::recorded);
      } catch (const Error&) {  // what a mutated record deserves
      }
    }
  }
  static bool try_inspect(const fs::path& path) {
    try {
      return !inspect_file(path.string()).kind.empty();
    } catch (const CacheError&) {
      return false;
    }
  }

  const int count_;
  Mutator mutate_;
  Reporter reporter_;
  fs::path top_;
  std::unique_ptr<DiskStore> store_;
  std::map<fs::path, std::pair<int, Bytes>> originals_;  // with the number of its key
  Bytes pack_, manifest_;
  int refused_ = 0, unchanged_ = 0;
};

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) fail("usage: cache_mutations COUNT SEED");
  Rig(std::atoi(arguments[1]), std::strtoull(arguments[2], nullptr, 10)).run();
}
