// Finds ptxas and nvJitLink and asks them for their versions. See assembler.h.
// Below code generation, which runs them, and below the front door, which only needs their names.
#include "tileweave/jit/base/assembler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

extern char** environ;

namespace tileweave {
namespace {

bool is_program(const std::string& path) {
  struct stat s{};
  return stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string read_all(int fd) {
  constexpr std::size_t most = 1 << 16;  // a version is short; whoever says more is not read to the end
  std::string out;
  char buffer[4096];
  while (out.size() < most) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}

// What `program --version` prints; empty where it cannot be run.
std::string version_output(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::string name = program, flag = "--version";
  char* arguments[] = {name.data(), flag.data(), nullptr};
  pid_t child = 0;
  const int problem = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  if (problem == 0) text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (problem == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return text;
}

bool is_version_character(char c) { return (c >= '0' && c <= '9') || c == '.'; }

}  // namespace

std::string find_ptxas() {
  std::string_view rest = env().path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, end));
    rest.remove_prefix(end == rest.size() ? end : end + 1);
    // Relative folders would make the code depend on where the program was started.
    if (folder.starts_with('/') && is_program(folder + "/ptxas")) return folder + "/ptxas";
  }
  for (const std::string& root : {env().cuda_home, std::string("/usr/local/cuda")}) {
    if (!root.empty() && is_program(root + "/bin/ptxas")) return root + "/bin/ptxas";
  }
  return "";
}

std::string ptxas_version(const std::string& program) {
  const std::string text = version_output(program);
  // "Cuda compilation tools, release 12.4, V12.4.131"
  const std::size_t mark = text.find(", V");
  if (mark == std::string::npos) return "unknown";
  const auto begin = text.begin() + static_cast<std::ptrdiff_t>(mark) + 3;
  const std::string version(begin, std::find_if_not(begin, text.end(), is_version_character));
  return version.empty() ? "unknown" : version;
}

void* nvjitlink_library() {
  static void* const library = [] {
    void* found = nullptr;
    for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12", "/usr/local/cuda/lib64/libnvJitLink.so"}) {
      if (found == nullptr) found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return found;
  }();
  return library;
}

std::string nvjitlink_version() {
  void* const library = nvjitlink_library();
  using Version = int (*)(unsigned*, unsigned*);
  const auto ask = library ? reinterpret_cast<Version>(dlsym(library, "nvJitLinkVersion")) : nullptr;
  unsigned major = 0, minor = 0;
  if (ask == nullptr || ask(&major, &minor) != 0) return "unknown";
  return std::to_string(major) + "." + std::to_string(minor);
}

AssemblerId assembler_id(AssemblerChoice choice) {
  const bool any = choice == AssemblerChoice::automatic;
  if (any || choice == AssemblerChoice::ptxas) {
    const std::string program = find_ptxas();
    if (!program.empty()) return {"cubin", "ptxas " + ptxas_version(program)};
  }
  if ((any || choice == AssemblerChoice::nvjitlink) && nvjitlink_library() != nullptr) {
    return {"cubin", "nvjitlink " + nvjitlink_version()};
  }
  return {"ptx", "driver"};
}

}  // namespace tileweave
