// nvJitLink, opened at run time: assembles PTX in this process, with no GPU and no driver.
// Beside ptxas in assemble.cpp. Declared here by hand: a build needs no CUDA toolkit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tileweave::codegen {

class NvJitLink {
 public:
  // The library, opened at the first call and never closed.
  static const NvJitLink& get();
  bool is_there() const { return create_ != nullptr; }
  // The cubin. Throws CompileError with the library's log.
  std::vector<std::byte> assemble(const std::string& ptx, const std::string& target, const std::string& kernel) const;

 private:
  NvJitLink();

  // The C interface since CUDA 12.0; a result of 0 is success.
  using Handle = void*;
  int (*create_)(Handle*, unsigned, const char**) = nullptr;
  int (*destroy_)(Handle*) = nullptr;
  int (*add_data_)(Handle, int kind, const void*, std::size_t, const char* name) = nullptr;
  int (*complete_)(Handle) = nullptr;
  int (*cubin_size_)(Handle, std::size_t*) = nullptr;
  int (*cubin_)(Handle, void*) = nullptr;
  int (*log_size_)(Handle, std::size_t*) = nullptr;
  int (*log_)(Handle, char*) = nullptr;
};

}  // namespace tileweave::codegen
