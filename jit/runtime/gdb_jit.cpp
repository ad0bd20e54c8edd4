// gdb's JIT interface: a linked list that gdb reads, and a function it sets a breakpoint on.
// The names and layout are gdb's (GDB manual, "JIT Compilation Interface"); they are shared with any other JIT of the
// process, hence weak and visible, and the list may hold entries of others.
#include "tileweave/jit/runtime/gdb_jit.h"

#include <cstdint>
#include <mutex>

#include "tileweave/jit/base/fork.h"

extern "C" {

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};

struct jit_descriptor {
  std::uint32_t version;
  std::uint32_t action_flag;  // 0 nothing, 1 register, 2 unregister
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

__attribute__((weak, noinline, visibility("default"))) void __jit_debug_register_code() {
  asm volatile("" ::: "memory");  // keeps the call that gdb watches
}
__attribute__((weak, visibility("default"))) jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
}

namespace tileweave::runtime {
namespace {

constinit LeafMutex list_mutex;

void notify(std::uint32_t action, jit_code_entry* entry) {
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_descriptor.relevant_entry = entry;
  __jit_debug_register_code();
  __jit_debug_descriptor.action_flag = 0;
  __jit_debug_descriptor.relevant_entry = nullptr;
}

}  // namespace

void* register_with_debugger(std::span<const std::byte> elf_file) {
  auto* entry = new jit_code_entry{nullptr, nullptr, reinterpret_cast<const char*>(elf_file.data()), elf_file.size()};
  const std::lock_guard lock(list_mutex);
  entry->next_entry = __jit_debug_descriptor.first_entry;
  if (entry->next_entry != nullptr) entry->next_entry->prev_entry = entry;
  __jit_debug_descriptor.first_entry = entry;
  notify(1, entry);
  return entry;
}

void unregister_from_debugger(void* handle) noexcept {
  auto* entry = static_cast<jit_code_entry*>(handle);
  const std::lock_guard lock(list_mutex);
  (entry->prev_entry != nullptr ? entry->prev_entry->next_entry : __jit_debug_descriptor.first_entry) =
      entry->next_entry;
  if (entry->next_entry != nullptr) entry->next_entry->prev_entry = entry->prev_entry;
  notify(2, entry);
  delete entry;
}

}  // namespace tileweave::runtime
