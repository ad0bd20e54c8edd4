// Loads a relocatable x86-64 ELF object made by our code generator: places, relocates, protects, and finds its entry.
// Between a Binary of kind elf_object and a CPU kernel; the input is not trusted to be well-formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/jit/runtime/services.h"

namespace tileweave::runtime {

// What an object must be: ET_REL, 64-bit little-endian x86-64, position-independent, small or medium code model, no
// thread-local or common data. Relocations of loaded sections: R_X86_64_64, PC32, PLT32, PC64, GOTPCREL, GOTPCRELX,
// REX_GOTPCRELX (the last four with a GOT or stub of ours; 32 and 32S need a non-PIC object and are refused by name).
// Its undefined symbols are those of the table it is given. Memory is writable or executable, never both.
// Whatever the bytes are, load returns an object or throws; what the code does is the code's business.
class LoadedObject {
 public:
  // Errors: LaunchError that says what is wrong where.
  static std::unique_ptr<LoadedObject> load(std::span<const std::byte> file,
                                            std::span<const Symbol> externals = host_symbols());
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  // The address of a global function of the object, or null.
  void* function(std::string_view name) const;

 private:
  friend class ElfLoading;
  LoadedObject() = default;

  struct Function {
    std::string name;
    void* address;
  };

  std::byte* image_ = nullptr;
  std::size_t image_bytes_ = 0;
  std::vector<Function> functions_;
  void* frames_ = nullptr;             // the registered .eh_frame
  std::vector<std::byte> debug_file_;  // what gdb reads
  void* debugger_ = nullptr;
};

}  // namespace tileweave::runtime
