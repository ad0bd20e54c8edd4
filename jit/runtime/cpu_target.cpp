// Reads CPUID: the features that LLVM may use here, and the CPU whose scheduling fits.
// Bits are from the Intel SDM volume 2, CPUID, and the AMD APM volume 3, appendix E.
#include "tileweave/jit/runtime/cpu_target.h"

#include <algorithm>
#include <cstdint>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "tileweave/jit/base/fork.h"

namespace tileweave::runtime {
namespace {

#ifdef __x86_64__

enum Register { eax, ebx, ecx, edx };
enum State { any, ymm, zmm };  // registers the operating system must save

struct Feature {
  const char* name;
  std::uint32_t leaf, subleaf;
  Register reg;
  int bit;
  State state;
};

constexpr Feature features[] = {
    {"adx", 7, 0, ebx, 19, any},
    {"aes", 1, 0, ecx, 25, any},
    {"avx", 1, 0, ecx, 28, ymm},
    {"avx2", 7, 0, ebx, 5, ymm},
    {"avx512bf16", 7, 1, eax, 5, zmm},
    {"avx512bitalg", 7, 0, ecx, 12, zmm},
    {"avx512bw", 7, 0, ebx, 30, zmm},
    {"avx512cd", 7, 0, ebx, 28, zmm},
    {"avx512dq", 7, 0, ebx, 17, zmm},
    {"avx512f", 7, 0, ebx, 16, zmm},
    {"avx512fp16", 7, 0, edx, 23, zmm},
    {"avx512ifma", 7, 0, ebx, 21, zmm},
    {"avx512vbmi", 7, 0, ecx, 1, zmm},
    {"avx512vbmi2", 7, 0, ecx, 6, zmm},
    {"avx512vl", 7, 0, ebx, 31, zmm},
    {"avx512vnni", 7, 0, ecx, 11, zmm},
    {"avx512vp2intersect", 7, 0, edx, 8, zmm},
    {"avx512vpopcntdq", 7, 0, ecx, 14, zmm},
    {"avxifma", 7, 1, eax, 23, ymm},
    {"avxneconvert", 7, 1, edx, 5, ymm},
    {"avxvnni", 7, 1, eax, 4, ymm},
    {"avxvnniint8", 7, 1, edx, 4, ymm},
    {"bmi", 7, 0, ebx, 3, any},
    {"bmi2", 7, 0, ebx, 8, any},
    {"cx16", 1, 0, ecx, 13, any},
    {"f16c", 1, 0, ecx, 29, ymm},
    {"fma", 1, 0, ecx, 12, ymm},
    {"gfni", 7, 0, ecx, 8, any},
    {"lzcnt", 0x80000001, 0, ecx, 5, any},
    {"movbe", 1, 0, ecx, 22, any},
    {"pclmul", 1, 0, ecx, 1, any},
    {"popcnt", 1, 0, ecx, 23, any},
    {"sahf", 0x80000001, 0, ecx, 0, any},
    {"sha", 7, 0, ebx, 29, any},
    {"sse3", 1, 0, ecx, 0, any},
    {"sse4.1", 1, 0, ecx, 19, any},
    {"sse4.2", 1, 0, ecx, 20, any},
    {"sse4a", 0x80000001, 0, ecx, 6, any},
    {"ssse3", 1, 0, ecx, 9, any},
    {"vaes", 7, 0, ecx, 9, ymm},
    {"vpclmulqdq", 7, 0, ecx, 10, ymm},
};

// What each name stands for in LLVM, as far as code without intrinsics can use it; a name is used only where all of it
// has been seen, since a hypervisor may hide parts.
constexpr std::string_view v2 = "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3";
constexpr std::string_view v3 = "avx avx2 bmi bmi2 f16c fma lzcnt movbe";
constexpr std::string_view v4 = "avx512bw avx512cd avx512dq avx512f avx512vl";
constexpr std::string_view crypto = "aes pclmul";
constexpr std::string_view ice =
    "avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq gfni sha "
    "vaes vpclmulqdq";

struct Cpu {
  const char* name;
  const char* vendor;  // "" for any
  std::uint32_t family;
  std::vector<std::string_view> needs;
};

const std::vector<Cpu>& cpus() {
  static const auto& list = *new std::vector<Cpu>{
      {"znver5", "AuthenticAMD", 0x1a, {v2, v3, v4, crypto, ice, "adx avx512bf16 avx512vp2intersect avxvnni sse4a"}},
      {"znver4", "AuthenticAMD", 0, {v2, v3, v4, crypto, ice, "adx avx512bf16 sse4a"}},
      {"znver3", "AuthenticAMD", 0x19, {v2, v3, crypto, "adx sha sse4a vaes vpclmulqdq"}},
      {"znver2", "AuthenticAMD", 0, {v2, v3, crypto, "adx sha sse4a"}},
      {"sapphirerapids", "GenuineIntel", 6, {v2, v3, v4, crypto, ice, "adx avx512bf16 avx512fp16 avxvnni"}},
      {"icelake-server", "GenuineIntel", 6, {v2, v3, v4, crypto, ice, "adx"}},
      {"skylake-avx512", "GenuineIntel", 6, {v2, v3, v4, crypto, "adx"}},
      {"haswell", "GenuineIntel", 6, {v2, v3, "pclmul"}},
      {"x86-64-v4", "", 0, {v2, v3, v4}},
      {"x86-64-v3", "", 0, {v2, v3}},
      {"x86-64-v2", "", 0, {v2}},
      {"x86-64", "", 0, {}},
  };
  return list;
}

std::uint32_t cpuid(std::uint32_t leaf, std::uint32_t subleaf, Register reg) {
  std::uint32_t out[4] = {};
  if (subleaf > 0 && subleaf > cpuid(leaf, 0, eax)) return 0;
  __get_cpuid_count(leaf, subleaf, &out[0], &out[1], &out[2], &out[3]);
  return out[reg];
}

// The register state the operating system saves (XCR0).
State saved_state() {
  if ((cpuid(1, 0, ecx) >> 27 & 1) == 0) return any;
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 0xe6) == 0xe6) return zmm;
  return (low & 0x6) == 0x6 ? ymm : any;
}

std::string vendor() {
  std::string v;
  for (const Register r : {ebx, edx, ecx}) {
    const std::uint32_t part = cpuid(0, 0, r);
    v.append(reinterpret_cast<const char*>(&part), 4);
  }
  return v;
}

std::uint32_t family() {
  const std::uint32_t signature = cpuid(1, 0, eax), base = signature >> 8 & 0xf;
  return base == 0xf ? base + (signature >> 20 & 0xff) : base;
}

std::string brand() {
  std::string text;
  for (std::uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    for (const Register r : {eax, ebx, ecx, edx}) {
      const std::uint32_t part = cpuid(leaf, 0, r);
      text.append(reinterpret_cast<const char*>(&part), 4);
    }
  }
  text.resize(std::min(text.size(), text.find('\0')));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  text.erase(0, text.find_first_not_of(' '));
  return text.empty() ? "x86-64 CPU" : text;
}

bool has_all(std::span<const std::string_view> seen, std::string_view names) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (std::find(seen.begin(), seen.end(), names.substr(0, end)) == seen.end()) return false;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return true;
}

CpuTarget detect() {
  CpuTarget t = cpu_target_of(host_cpu_features(), vendor(), family());
  t.brand = brand();
  return t;
}

#else

CpuTarget detect() { return {"aarch64:generic", "AArch64 CPU", 128, {"aarch64:generic"}}; }

#endif

}  // namespace

#ifdef __x86_64__
std::vector<std::string_view> host_cpu_features() {
  const State state = saved_state();
  std::vector<std::string_view> seen;
  for (const Feature& f : features) {
    if (f.state <= state && (cpuid(f.leaf, f.subleaf, f.reg) >> f.bit & 1) != 0) seen.push_back(f.name);
  }
  return seen;
}

CpuTarget cpu_target_of(std::span<const std::string_view> seen, std::string_view vendor, unsigned family) {
  const auto fits = [&](const Cpu& c) {
    return (*c.vendor == '\0' || vendor == c.vendor) && (c.family == 0 || c.family == family) &&
           std::all_of(c.needs.begin(), c.needs.end(), [&](std::string_view n) { return has_all(seen, n); });
  };
  CpuTarget t;
  t.text = std::string("x86-64:") + std::find_if(cpus().begin(), cpus().end(), fits)->name;
  for (const std::string_view f : seen) t.text += "+" + std::string(f);
  t.vector_bits = has_all(seen, "avx512f") ? 512 : has_all(seen, "avx") ? 256 : 128;
  for (const Cpu& c : cpus()) {
    if (*c.vendor == '\0' && fits(c)) t.levels.emplace_back(c.name);
  }
  return t;
}
#endif

const CpuTarget& host_cpu_target() {
  static constinit Once<const CpuTarget> once;
  return once.get([] { return new CpuTarget(detect()); });
}

}  // namespace tileweave::runtime
