// What a lookup costs that ends on disk: opening the cache, a hit of a 64 KiB entry from a root of 100 to 10,000
// entries and from a pinned pack, all with a warm page cache. Each beside reading the same bytes with plain pread.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tileweave/cache/cache.h"
#include "tileweave/cache/pack.h"
#include "timing.h"

namespace {
using namespace tileweave;
using namespace tileweave::cache;

Key key_of(std::uint64_t n) {
  KeyWriter w({"codegen", "19", "sm_90a", "cubin", "ptxas 13.0"});
  for (int i = 0; i < 40; ++i) w.boolean("argument " + std::to_string(i) + " aligned_base", i % 2 == 0);
  return w.natural("n", n).text("ir", std::string(3000, 'x')).finish("kernel");
}

Entry entry_of(std::uint64_t n) {
  Entry e{"kernel", "meta", {}};
  e.payload.resize(64 << 10);
  std::mt19937_64 random(n);
  for (std::byte& b : e.payload) b = static_cast<std::byte>(random() % 23);
  return e;
}

CacheSettings settings_in(const std::string& root) {
  CacheSettings s;
  s.root = root;
  s.max_bytes = 0;
  s.memory_entries = 0;
  return s;
}

double microseconds(const std::function<void()>& what, int times) {
  std::vector<double> each;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    what();
    each.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return bench::median(each);
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

double hit(Cache& cache, std::uint64_t kernels) {
  std::uint64_t n = 0;
  return microseconds(
      [&] {
        const Entry e = cache.get_or_compile(key_of(n++ % kernels), []() -> Entry { fail("a miss"); });
        if (e.payload.size() != 64 << 10) fail("wrong bytes");
      },
      1001);
}

double plain_read(const std::string& root) {
  std::vector<std::string> files;
  for (const auto& f : std::filesystem::recursive_directory_iterator(root)) {
    if (f.path().extension() == ".entry" && files.size() < 100) files.push_back(f.path());
  }
  std::size_t n = 0;
  return microseconds(
      [&] {
        const int fd = ::open(files[n++ % files.size()].c_str(), O_RDONLY);
        std::vector<char> bytes(80 << 10);
        if (::pread(fd, bytes.data(), bytes.size(), 0) < 64 << 10) fail("a short read");
        ::close(fd);
      },
      1001);
}

}  // namespace

int main() {
  std::string root = "/tmp/tileweave_cache_lookup_XXXXXX";
  if (::mkdtemp(root.data()) == nullptr) fail("no directory");
  std::printf("| what | us (median) |\n|---|---|\n");
  std::uint64_t stored = 0;
  for (const std::uint64_t kernels : {100, 1000, 10000}) {
    Cache cache(settings_in(root));
    for (; stored < kernels; ++stored) cache.get_or_compile(key_of(stored), [&] { return entry_of(stored); });
    std::printf("| disk hit, 64 KiB, %llu entries | %.1f |\n", static_cast<unsigned long long>(kernels),
                hit(cache, 100));
  }
  std::printf("| open, pread, close of the same file | %.1f |\n", plain_read(root));
  std::printf("| making a key alone | %.1f |\n", microseconds([&] { (void)key_of(stored++); }, 1001));
  std::printf("| opening the cache | %.1f |\n", microseconds([&] { const Cache c(settings_in(root)); }, 501));
  for (const bool compressed : {false, true}) {
    Reporter quiet;
    DiskOptions options;
    options.root = root + "/few";
    {
      const auto few = DiskStore::open(options, quiet);
      for (std::uint64_t n = 0; n < 100; ++n) few->put(key_of(n), entry_of(n));
      Store* sources[] = {few.get()};
      const PackSummary p = write_pack(sources, root + "/few.pack", compressed);
      CacheSettings s = settings_in("");
      s.layers = {{root + "/few.pack", p.digest}};
      Cache cache(s);
      std::printf("| hit in a pinned %spack, 64 KiB | %.1f |\n", compressed ? "compressed " : "", hit(cache, 100));
    }
  }
  std::filesystem::remove_all(root);
}
