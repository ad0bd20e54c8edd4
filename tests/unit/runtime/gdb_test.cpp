// gdb stops in loaded code at the C line, by the name of the function, and shows the argument.
// Tests jit/runtime/gdb_jit with the loader; skips, with the reason, without gdb or clang-19.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tileweave/jit/runtime/elf_loader.h"

namespace tileweave::runtime {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs in a child under gdb, in the directory of the object. One word, since gdb passes arguments on without a shell.
TEST_CASE("gdb_child" * doctest::skip()) {
  const std::string bytes = read_file(std::filesystem::current_path() / "kernel.o");
  const auto object = LoadedObject::load(std::as_bytes(std::span(bytes)));
  const auto f = reinterpret_cast<int (*)(int)>(object->function("jit_triple"));
  CHECK(f(14) == 42);
}

TEST_CASE("gdb stops at the source line of a loaded object") {
  if (std::system("gdb --version > /dev/null 2>&1") != 0 || std::system("clang-19 --version > /dev/null 2>&1") != 0) {
    MESSAGE("skipped: gdb or clang-19 is not installed");
    return;
  }
  const auto dir = std::filesystem::temp_directory_path() / ("tileweave_gdb_" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "kernel.c") << "int jit_triple(int x) {\n  int y = x + x;\n  return y + x;\n}\n";
  const std::string in_dir = "cd " + dir.string() + " && ";
  REQUIRE(std::system((in_dir + "clang-19 -c -g -O0 -fPIC kernel.c -o kernel.o").c_str()) == 0);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string gdb =
      "gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'set breakpoint pending on' -ex 'set startup-with-shell "
      "off' "
      "-ex 'break kernel.c:3' -ex run -ex 'info args' -ex 'info locals' -ex backtrace -ex continue --args " +
      self + " --no-skip --test-case=gdb_child > log.txt 2>&1 < /dev/null";
  std::system((in_dir + gdb).c_str());
  const std::string log = read_file(dir / "log.txt");
  std::filesystem::remove_all(dir);
  if (log.find("ptrace: Operation not permitted") != std::string::npos) {
    MESSAGE("skipped: the system does not allow ptrace");
    return;
  }
  INFO(log);
  CHECK(log.find("kernel.c:3") != std::string::npos);
  CHECK(log.find("x = 14") != std::string::npos);
  CHECK(log.find("y = 28") != std::string::npos);
  CHECK(log.find("jit_triple (x=14)") != std::string::npos);
  CHECK(log.find("Status: \x1b[32mSUCCESS!") + log.find("Status: SUCCESS!") != 2 * std::string::npos);
}

}  // namespace
}  // namespace tileweave::runtime
