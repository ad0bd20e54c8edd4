// A libtileweave_jit that misbehaves for kernels of certain names and asks the real one for the rest: what a record can
// do to a compiler, on purpose. Put beside a copy of libtileweave; the real library's path is in BROKEN_COMPILER_REAL.
//   crash  segmentation fault     hang    never returns     hungry   takes memory until there is none
//   abort  as LLVM does on a fatal error, with a line on stderr      quit   ends the process quietly
//   steps  hang after having started a child that never ends
// With BROKEN_COMPILER_FAILS=record|compile|internal every kernel fails with such an error, with =empty it has no code,
// with =cut half of its code is missing. With BROKEN_COMPILER_SLOW every compile for a GPU takes ten seconds more.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

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
using Compile = decltype(&tileweave_jit_compile);

void keep(void* user, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const char*>(data);
  static_cast<std::vector<char>*>(user)->assign(p, p + bytes);
}

// What the real compiler says of this text, spoilt.
int fail(std::string_view how, Compile compile, const char* codegen_id, std::string_view text, const char* target,
         tileweave_jit_sink sink, void* user) {
  const bool is_code = how == "empty" || how == "cut";
  if (!is_code) text = "this is no tile IR";
  std::vector<char> reply;
  (void)compile(codegen_id, text.data(), text.size(), target, keep, nullptr, &reply);
  if (is_code) reply.resize(how == "cut" ? reply.size() / 2 : 0);
  sink(user, reply.data(), reply.size());
  if (is_code) return tileweave_jit_done;
  return how == "record"    ? tileweave_jit_record_error
         : how == "compile" ? tileweave_jit_compile_error
                            : tileweave_jit_internal_error;
}
}  // namespace

int tileweave_jit_compile(const char* codegen_id, const char* text, std::size_t text_bytes, const char* target,
                          tileweave_jit_sink sink, tileweave_jit_observer observer, void* user) {
  misbehave({text, text_bytes});
  if (std::getenv("BROKEN_COMPILER_SLOW") != nullptr && std::string_view(target).starts_with("sm_")) ::sleep(10);
  static void* const real = ::dlopen(std::getenv("BROKEN_COMPILER_REAL"), RTLD_NOW | RTLD_LOCAL);
  if (real == nullptr) std::abort();
  const auto compile = reinterpret_cast<Compile>(::dlsym(real, "tileweave_jit_compile"));
  if (const char* how = std::getenv("BROKEN_COMPILER_FAILS"); how != nullptr && *how != '\0') {
    return fail(how, compile, codegen_id, {text, text_bytes}, target, sink, user);
  }
  return compile(codegen_id, text, text_bytes, target, sink, observer, user);
}
