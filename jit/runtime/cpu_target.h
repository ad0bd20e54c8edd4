// What the host's CPU is, in LLVM's names, found without LLVM: the target string of the CPU device and its key.
// Used by the host devices.
#pragma once

#include <string>

namespace tileweave::runtime {

struct CpuTarget {
  std::string text;   // "x86-64:znver5+adx+aes+avx+avx2+..."; "aarch64:generic" on AArch64
  std::string brand;  // "AMD EPYC 9B45"
  int vector_bits = 128;
};
const CpuTarget& host_cpu_target();

}  // namespace tileweave::runtime
