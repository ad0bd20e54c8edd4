// Finds libtileweave_jit beside libtileweave and speaks to it. See jit_library.h.
#include "tileweave/jit/jit_library.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/jit_entry.h"
#include "tileweave_codegen_id.h"

namespace tileweave::jit {
namespace {
using Entry = decltype(&tileweave_jit_compile);

// Beside the library (or program) this code is in: the environment must not be able to name code to load.
std::string library_path() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&codegen_id), &info) || !info.dli_fname) return {};
  std::error_code failed;
  auto self = std::filesystem::canonical(info.dli_fname, failed);
  return failed ? std::string() : (self.parent_path() / "libtileweave_jit.so").string();
}

struct Library {
  Entry entry = nullptr;
  std::string problem;
};

Library open_library() {
  if (&tileweave_jit_compile) return {&tileweave_jit_compile, {}};  // a program that links the compiler in
  const std::string path = library_path();
  // RTLD_LOCAL keeps its LLVM to itself; never closed, because LLVM's statics do not survive it.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    return {nullptr, why ? why : "unknown error"};
  }
  auto entry = reinterpret_cast<Entry>(dlsym(handle, "tileweave_jit_compile"));
  if (!entry) return {nullptr, path + " has no function tileweave_jit_compile"};
  return {entry, {}};
}

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

void collect(void* user, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const std::byte*>(data);
  static_cast<std::vector<std::byte>*>(user)->assign(p, p + bytes);
}

// A kernel's name as a file name.
std::string file_name(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  return out;
}

// Dumping is for a person looking; a directory that cannot be written must not fail the compile.
void dump(void* user, const char* stage, std::size_t stage_bytes, const char* text, std::size_t text_bytes) {
  const auto* state = static_cast<const std::pair<std::vector<std::byte>, std::filesystem::path>*>(user);
  std::string file(stage, stage_bytes);
  if (file.find('.') == std::string::npos) file += ".tir";
  std::ofstream(state->second / file) << std::string_view(text, text_bytes) << '\n';
}
}  // namespace

const char* codegen_id() { return TILEWEAVE_CODEGEN_ID; }

Binary compile_in_library(const ir::Function& recorded, const std::string& target) {
  const Library& lib = library();
  if (!lib.entry)
    throw_compile_error(
        recorded.place,
        "kernel '" + recorded.name + "' is not in the cache and the compiler cannot be loaded: " + lib.problem,
        "install libtileweave_jit beside libtileweave, or ship a cache that holds this kernel");
  const std::string text = ir::to_readable(recorded);
  std::pair<std::vector<std::byte>, std::filesystem::path> state;
  tileweave_jit_observer observer = nullptr;
  if (!env().dump.empty()) {
    state.second =
        std::filesystem::path(env().dump) / (file_name(recorded.name) + "-" + file_name(target).substr(0, 24));
    std::error_code failed;
    std::filesystem::create_directories(state.second, failed);
    observer = dump;
  }
  const int status = lib.entry(
      codegen_id(), text.data(), text.size(), target.c_str(),
      [](void* user, const void* data, std::size_t n) {
        collect(&static_cast<decltype(state)*>(user)->first, data, n);
      },
      observer, &state);
  if (status == tileweave_jit_done) {
    Binary b = deserialize(state.first);
    if (observer)
      std::ofstream(state.second / "22.bin", std::ios::binary)
          .write(reinterpret_cast<const char*>(b.code.data()), static_cast<std::streamsize>(b.code.size()));
    return b;
  }
  Diagnostic d = deserialize_diagnostic(state.first);
  if (!d.place.known()) d.place = recorded.place;
  if (status == tileweave_jit_record_error) throw_record_error(d.place, d.message, d.help, d.notes);
  if (status == tileweave_jit_compile_error) throw_compile_error(d.place, d.message, d.help, d.notes);
  throw_internal_error(d);
}

}  // namespace tileweave::jit
