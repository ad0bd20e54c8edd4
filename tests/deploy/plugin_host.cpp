// Opens a library with a kernel in it, runs it, closes it, several times. See plugin.cpp.
// Usage: plugin_host LIBRARY
#include <dlfcn.h>

#include <cstdio>

namespace {
const char* path = nullptr;

int run_once() {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::puts(::dlerror()), 1;
  const auto run = reinterpret_cast<int (*)()>(::dlsym(library, "run_plugin"));
  const int status = run == nullptr ? 1 : run();
  return ::dlclose(library) == 0 ? status : 1;
}
}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  path = arguments[1];
  for (int i = 0; i < 5; ++i) {
    if (run_once() != 0) return 1;
  }
  return 7;
}
