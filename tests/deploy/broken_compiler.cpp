// A libtileweave_jit that misbehaves for kernels of certain names and asks the real one for the rest: what a record can
// do to a compiler, on purpose. Put beside a copy of libtileweave; the real library's path is in BROKEN_COMPILER_REAL.
//   crash  segmentation fault     hang    never returns     hungry   takes memory until there is none
//   abort  as LLVM does on a fatal error, with a line on stderr      quit   ends the process quietly
//   steps  hang after having started a child that never ends
// With BROKEN_COMPILER_SLOW every compile for a GPU takes ten seconds more.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tileweave/jit/jit_entry.h"

namespace {
void misbehave(std::string_view text) {
  const auto is = [text](const char* name) { return text.find(std::string_view(name)) != std::string_view::npos; };
  if (is("func \"crash\"")) ::raise(SIGSEGV);
  if (is("func \"abort\"")) {
    std::fputs("LLVM ERROR: on purpose\n", stderr);
    std::abort();
  }
  if (is("func \"quit\"")) ::_exit(0);
  if (is("func \"steps\"") && ::fork() == 0) {
    while (true) ::pause();
  }
  if (is("func \"hang\"") || is("func \"steps\"")) {
    while (true) ::pause();
  }
  if (is("func \"hungry\"")) {
    constexpr std::size_t step = std::size_t{64} << 20;
    while (void* p = std::malloc(step)) std::memset(p, 1, 4096);
    std::fputs("LLVM ERROR: out of memory\n", stderr);
    std::abort();
  }
}
}  // namespace

int tileweave_jit_compile(const char* codegen_id, const char* text, std::size_t text_bytes, const char* target,
                          tileweave_jit_sink sink, tileweave_jit_observer observer, void* user) {
  misbehave({text, text_bytes});
  if (std::getenv("BROKEN_COMPILER_SLOW") != nullptr && std::string_view(target).starts_with("sm_")) ::sleep(10);
  static void* const real = ::dlopen(std::getenv("BROKEN_COMPILER_REAL"), RTLD_NOW | RTLD_LOCAL);
  if (real == nullptr) std::abort();
  const auto compile = reinterpret_cast<decltype(&tileweave_jit_compile)>(::dlsym(real, "tileweave_jit_compile"));
  return compile(codegen_id, text, text_bytes, target, sink, observer, user);
}
