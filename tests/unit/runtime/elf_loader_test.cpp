// The ELF loader on objects made by clang from small C files, and on damaged ones.
// Tests jit/runtime/elf_loader, eh_frame, gdb_jit; skips, with the reason, where there is no clang-19.
#include "tileweave/jit/runtime/elf_loader.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tileweave/jit/base/error.h"

namespace tileweave::runtime {
namespace {

using Bytes = std::vector<std::byte>;

bool has_clang() {
  static const bool found = std::system("clang-19 --version > /dev/null 2>&1") == 0;
  if (!found) MESSAGE("skipped: clang-19 is not installed");
  return found;
}

// The object clang makes of a C text.
Bytes object_of(const std::string& source, const std::string& options = "-O2 -fPIC") {
  const auto dir = std::filesystem::temp_directory_path() / ("tileweave_elf_" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  const std::string c = dir / "kernel.c", o = dir / "kernel.o";
  std::ofstream(c) << source;
  const int status = std::system(("clang-19 -c " + options + " " + c + " -o " + o).c_str());
  REQUIRE(status == 0);
  std::ifstream in(o, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove_all(dir);
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

template <class F>
F* function(const LoadedObject& object, const char* name) {
  return reinterpret_cast<F*>(object.function(name));
}

std::string error_of(const Bytes& object) {
  try {
    LoadedObject::load(object);
  } catch (const LaunchError& e) {
    return e.diagnostic().message;
  }
  return "no error";
}

constexpr const char* kernel_source = R"(
typedef unsigned long size_t;
void* memcpy(void*, const void*, size_t); void* memset(void*, int, size_t); float fmaf(float, float, float);
static const float table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
static int counter; static int start = 40; static const char* const words[2] = {"zero", "one"};
__attribute__((noinline)) static float inner(float x, int i) { return x * table[i & 7]; }
float scale(float x, int i) { return inner(x, i) + 0.5f; }
int count(void) { return ++counter + ++start; }
void copy(void* to, const void* from, size_t n) { memset(to, 7, n + 1); memcpy(to, from, n); }
float fused(float a, float b, float c) { return fmaf(a, b, c); }
int pick(int i) { switch (i) { case 0: return 11; case 1: return 7; case 2: return 100; case 3: return -4; case 4: return 9; default: return 0; } }
char letter(int w, int i) { return words[w][i]; }
)";

TEST_CASE("code, constants, data, calls out and pointers in data all work") {
  if (!has_clang()) return;
  for (const char* options :
       {"-O2 -fPIC", "-O0 -fPIC", "-O2 -fPIC -mcmodel=medium", "-O2 -fPIC -fno-plt -g", "-O1 -fPIE"}) {
    CAPTURE(options);
    const auto object = LoadedObject::load(object_of(kernel_source, options));
    CHECK(function<float(float, int)>(*object, "scale")(3.0f, 3) == 24.5f);
    CHECK(function<int()>(*object, "count")() == 42);
    CHECK(function<int()>(*object, "count")() == 44);
    char to[9] = "xxxxxxxx";
    function<void(void*, const void*, std::size_t)>(*object, "copy")(to, "abcd", 4);
    CHECK(std::string(to) == "abcd\x07xxx");
    CHECK(function<float(float, float, float)>(*object, "fused")(3, 4, 5) == 17.0f);
    for (int i = 0; i < 6; ++i) {
      constexpr int expected[] = {11, 7, 100, -4, 9, 0};
      CHECK(function<int(int)>(*object, "pick")(i) == expected[i]);
    }
    CHECK(function<char(int, int)>(*object, "letter")(1, 2) == 'e');
    CHECK(object->function("inner") == nullptr);  // local
    CHECK(object->function("absent") == nullptr);
  }
}

TEST_CASE("memory of an object is writable or executable, never both, and goes when it goes") {
  if (!has_clang()) return;
  const auto rights_at = [](const void* address) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0;
      char rights[5] = "";
      std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights);
      const auto a = reinterpret_cast<unsigned long>(address);
      if (a >= begin && a < end) return std::string(rights);
    }
    return std::string("none");
  };
  auto object =
      LoadedObject::load(object_of("int data = 3; int f(void) { return 1; } int* g(void) { return &data; } "
                                   "static const int t[4] = {1}; const int* h(void) { return t; }"));
  const void* code = object->function("f");
  CHECK(rights_at(code) == "r-xp");
  CHECK(rights_at(function<int*()>(*object, "g")()) == "rw-p");
  CHECK(rights_at(function<const int*()>(*object, "h")()) == "r--p");
  object.reset();
  CHECK(rights_at(code).find('x') == std::string::npos);  // others may map data there
}

TEST_CASE("the unwinder walks through loaded code") {
  if (!has_clang()) return;
  const auto object =
      LoadedObject::load(object_of("int run(int (*f)(void*), void* p) { int a[8]; a[f(p) & 7] = 1; __asm__ "
                                   "volatile(\"\" :: \"r\"(a)); return a[0]; }",
                                   "-O2 -fPIC -fomit-frame-pointer -fasynchronous-unwind-tables"));
  struct Seen {
    const void* function;
    bool inside = false;
    int after = 0;
  } seen{object->function("run")};
  const auto callback = [](void* p) {
    _Unwind_Backtrace(
        [](_Unwind_Context* context, void* q) {
          auto& s = *static_cast<Seen*>(q);
          if (s.inside) ++s.after;
          s.inside |= _Unwind_FindEnclosingFunction(reinterpret_cast<void*>(_Unwind_GetIP(context))) == s.function;
          return _URC_NO_REASON;
        },
        p);
    return 0;
  };
  function<int(int (*)(void*), void*)>(*object, "run")(+callback, &seen);
  CHECK(seen.inside);
  CHECK(seen.after > 1);  // and comes out on the other side
}

TEST_CASE("only the functions of the table can be called") {
  if (!has_clang()) return;
  CHECK(error_of(object_of("int system(const char*); int f(void) { return system(\"ls\"); }")) ==
        "compiled kernel cannot be loaded: it calls 'system', which is not among the functions kernels may call");
  static int calls = 0;
  const Symbol table[] = {{"mine", reinterpret_cast<void*>(+[] { ++calls; })}};
  const auto object = LoadedObject::load(object_of("void mine(void); void f(void) { mine(); mine(); }"), table);
  function<void()>(*object, "f")();
  CHECK(calls == 2);
}

TEST_CASE("objects that are not ours are refused by name") {
  if (!has_clang()) return;
  const std::string prefix = "compiled kernel cannot be loaded: ";
  CHECK(error_of({}) == prefix + "the ELF header lies past the end");
  CHECK(error_of(Bytes(64, std::byte{1})) == prefix + "it is no ELF file");
  CHECK(error_of(object_of("extern int t[]; int table[3]; int f(long i) { return table[i]; }",
                           "-O2 -fno-pic -mcmodel=small"))
            .find("it is not position-independent (relocation R_X86_64_32S in '.text')") != std::string::npos);
  CHECK(error_of(object_of("_Thread_local int x; int f(void) { return ++x; }")) ==
        prefix + "section '.tbss' is thread-local");
  CHECK(error_of(object_of("int x; __attribute__((constructor)) void f(void) { x = 1; }", "-O0 -fPIC"))  //
        == prefix + "section '.init_array' asks for code to run at load time");
  CHECK(error_of(object_of("int x; int f(void) { return x; }", "-O2 -fPIC -fcommon")) ==
        prefix + "a symbol is in no section (common and absolute ones are refused)");
  CHECK(error_of(object_of("int f(void) { return 1; }", "-O2 -fPIC --target=aarch64-linux-gnu")) ==
        prefix + "it is for ELF machine 183");
}

TEST_CASE("every truncation is refused") {
  if (!has_clang()) return;
  const Bytes good = object_of(kernel_source, "-O2 -fPIC -g");
  LoadedObject::load(good);
  // The section table stands at the end, so a whole object needs every byte.
  for (std::size_t n = 0; n < good.size(); ++n) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));  // exact heap block, for ASan
    CHECK_THROWS_AS(LoadedObject::load(cut), LaunchError);
  }
}

// Where the bytes stand that a loader interprets: headers, symbols, relocations, names, unwind data.
std::vector<std::size_t> structure_of(const Bytes& object) {
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  std::vector<std::size_t> places;
  const auto add = [&](std::size_t begin, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) places.push_back(begin + i);
  };
  add(0, sizeof header);
  add(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr s;
    std::memcpy(&s, object.data() + header.e_shoff + i * sizeof s, sizeof s);
    const bool code = s.sh_type == SHT_PROGBITS && (s.sh_flags & (SHF_EXECINSTR | SHF_WRITE)) != 0;
    if (s.sh_type != SHT_NOBITS && !code) add(s.sh_offset, s.sh_size);
  }
  return places;
}

TEST_CASE("thousands of damaged headers, symbols, relocations and unwind records: refused or loaded, never a crash") {
  if (!has_clang()) return;
  const Bytes good = object_of(kernel_source);
  const std::vector<std::size_t> places = structure_of(good);
  std::mt19937_64 random(20261130);
  int loaded = 0, refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    Bytes bad = good;
    for (int flips = 1 + trial % 3; flips > 0; --flips) {
      bad[places[random() % places.size()]] ^= static_cast<std::byte>(1 + random() % 255);
    }
    try {
      const auto object = LoadedObject::load(bad);
      ++loaded;
    } catch (const LaunchError&) {
      ++refused;
    }
  }
  CHECK(loaded + refused == 4000);
  CHECK(loaded > 100);
  CHECK(refused > 100);
}

TEST_CASE("extreme values in every header field") {
  if (!has_clang()) return;
  const Bytes good = object_of(kernel_source);
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  int refused = 0;
  const auto attempt = [&](std::size_t at, std::size_t width) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{0x7fffffff},
          std::uint64_t{0xfff0}, static_cast<std::uint64_t>(good.size()), ~std::uint64_t{0} - 63}) {
      Bytes bad = good;
      std::memcpy(bad.data() + at, &value, width);
      try {
        LoadedObject::load(bad);
      } catch (const LaunchError&) {
        ++refused;
      }
    }
  };
  for (std::size_t at = 16; at < sizeof header; at += 2) attempt(at, 2);
  attempt(offsetof(Elf64_Ehdr, e_shoff), 8);
  for (int i = 0; i < header.e_shnum; ++i) {
    const std::size_t base = header.e_shoff + i * sizeof(Elf64_Shdr);
    for (const std::size_t field :
         {offsetof(Elf64_Shdr, sh_flags), offsetof(Elf64_Shdr, sh_offset), offsetof(Elf64_Shdr, sh_size),
          offsetof(Elf64_Shdr, sh_addralign), offsetof(Elf64_Shdr, sh_entsize)}) {
      attempt(base + field, 8);
    }
    for (const std::size_t field : {offsetof(Elf64_Shdr, sh_name), offsetof(Elf64_Shdr, sh_type),
                                    offsetof(Elf64_Shdr, sh_link), offsetof(Elf64_Shdr, sh_info)}) {
      attempt(base + field, 4);
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("ten thousand loads and unloads leave nothing behind") {
  if (!has_clang()) return;
  const Bytes object = object_of("int f(int x) { return x + 1; }");
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    int n = 0;
    for (std::string line; std::getline(maps, line);) ++n;
    return n;
  };
  LoadedObject::load(object);
  const int before = mappings();
  for (int i = 0; i < 10'000; ++i) {
    const auto loaded = LoadedObject::load(object);
    if (i % 1000 == 0) CHECK(function<int(int)>(*loaded, "f")(i) == i + 1);
  }
  CHECK(mappings() <= before + 4);
}

}  // namespace
}  // namespace tileweave::runtime
