// Tells an attached debugger about loaded objects, through gdb's JIT interface.
// Called by the ELF loader; nothing else in the flow knows of debuggers.
#pragma once

#include <cstddef>
#include <span>

namespace tileweave::runtime {

// Registers an in-memory ELF file (section addresses filled in). The bytes must stay until unregister_from_debugger.
// The handle is never null.
void* register_with_debugger(std::span<const std::byte> elf_file);
void unregister_from_debugger(void* handle) noexcept;

}  // namespace tileweave::runtime
