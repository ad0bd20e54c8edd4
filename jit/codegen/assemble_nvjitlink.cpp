// Opens nvJitLink and calls it: see assemble_nvjitlink.h.
// Between PTX text and a cubin where there is no ptxas.
#include "tileweave/jit/codegen/assemble_nvjitlink.h"

#include <dlfcn.h>

#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::codegen {
namespace {

constexpr int input_is_ptx = 2;

template <class F>
bool find(void* library, const char* name, F& f) {
  f = reinterpret_cast<F>(dlsym(library, name));
  return f != nullptr;
}

}  // namespace

NvJitLink::NvJitLink() {
  void* const library = nvjitlink_library();
  if (library == nullptr) return;
  const bool all =
      find(library, "nvJitLinkDestroy", destroy_) && find(library, "nvJitLinkAddData", add_data_) &&
      find(library, "nvJitLinkComplete", complete_) && find(library, "nvJitLinkGetLinkedCubinSize", cubin_size_) &&
      find(library, "nvJitLinkGetLinkedCubin", cubin_) && find(library, "nvJitLinkGetErrorLogSize", log_size_) &&
      find(library, "nvJitLinkGetErrorLog", log_) && find(library, "nvJitLinkCreate", create_);
  if (!all) create_ = nullptr;
}

const NvJitLink& NvJitLink::get() {
  static const NvJitLink library;
  return library;
}

std::vector<std::byte> NvJitLink::assemble(const std::string& ptx, const std::string& target,
                                           const std::string& kernel) const {
  const std::string arch = "-arch=" + target;
  const char* options[] = {arch.c_str(), "-fma=0"};
  struct Link {
    const NvJitLink& library;
    Handle handle = nullptr;
    ~Link() {
      if (handle != nullptr) library.destroy_(&handle);
    }
  } link{*this};
  const auto check = [&](int result) {
    if (result == 0) return;
    std::string log;
    std::size_t size = 0;
    if (link.handle != nullptr && log_size_(link.handle, &size) == 0 && size > 0) {
      log.resize(size);
      log_(link.handle, log.data());
      log.resize(log.find_last_not_of(std::string("\0\n", 2)) + 1);
    }
    throw_compile_error({}, "nvJitLink refuses kernel '" + kernel + "' for " + target + " with error " +
                                std::to_string(result) + (log.empty() ? "" : ":\n" + log));
  };
  check(create_(&link.handle, 2, options));
  check(add_data_(link.handle, input_is_ptx, ptx.c_str(), ptx.size() + 1, kernel.c_str()));
  check(complete_(link.handle));
  std::size_t size = 0;
  check(cubin_size_(link.handle, &size));
  std::vector<std::byte> cubin(size);
  check(cubin_(link.handle, cubin.data()));
  return cubin;
}

}  // namespace tileweave::codegen
