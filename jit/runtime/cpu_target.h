// What the host's CPU is, in LLVM's names, found without LLVM: the target string of the CPU device and its key.
// Used by the host devices.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tileweave::runtime {

struct CpuTarget {
  std::string text;   // "x86-64:znver5+adx+aes+avx+avx2+..."; "aarch64:generic" on AArch64
  std::string brand;  // "AMD EPYC 9B45"
  int vector_bits = 128;
  // The generic targets whose code runs here, the highest first: "x86-64-v4", ..., "x86-64".
  std::vector<std::string> levels;
};
const CpuTarget& host_cpu_target();

#ifdef __x86_64__
// The same for a CPU with these features of LLVM's names, sorted ("adx", "aes", ...).
CpuTarget cpu_target_of(std::span<const std::string_view> features, std::string_view vendor, unsigned family);
// The features seen on this host.
std::vector<std::string_view> host_cpu_features();
#endif

}  // namespace tileweave::runtime
