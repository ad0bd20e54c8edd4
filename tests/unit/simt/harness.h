// Runs LLVM IR text on the SIMT machine, for the tests of this folder.
// The text is a module with a kernel @k; the primitives it calls are declared for it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace tileweave::test {

struct SimtRun {
  int threads = 32;
  int cluster = 1;
  std::int64_t blocks = 1;
  std::int64_t smem_bytes = 0;
  std::uint64_t seed = 0;
};

// A buffer that a kernel may access; its address is the kernel's next parameter.
struct Memory {
  void* data;
  std::int64_t bytes;
};
template <class T>
Memory memory(std::vector<T>& v) {
  return {v.data(), static_cast<std::int64_t>(v.size() * sizeof(T))};
}

// `body` is the text of "define void @k(i64 %p0, i64 %p1, ..., i64 %gx, i64 %gy, i64 %gz) { ... }" between the braces.
// Every primitive with a name that occurs in it is declared. Site n is "kernel.cpp", line n.
void run_simt(const std::string& body, const std::vector<Memory>& memories, const SimtRun& options = {});
// The message of the LaunchError (kind fault) that it throws; "" where it throws none.
std::string simt_fault(const std::string& body, const std::vector<Memory>& memories, const SimtRun& options = {});

}  // namespace tileweave::test
