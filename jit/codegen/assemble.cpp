// Chooses the assembler, runs ptxas as a child process, and reads what it says about registers.
// Between PTX text and Binary; nvJitLink is in assemble_nvjitlink.cpp.
#include "tileweave/jit/codegen/assemble.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/assemble_nvjitlink.h"

extern char** environ;

namespace tileweave::codegen {
namespace {

// A file of the user's own that goes away with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view what) {
    path_ = (env().tmpdir.empty() ? "/tmp" : env().tmpdir) + "/tileweave-" + std::string(what) + "-XXXXXX";
    fd_ = mkostemp(path_.data(), O_CLOEXEC);  // mode 0600
    if (fd_ < 0) {
      throw_compile_error({}, "cannot create a temporary file " + path_ + ": " + std::strerror(errno),
                          "set TMPDIR to a directory that can be written");
    }
  }
  ~TemporaryFile() {
    close(fd_);
    unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw_compile_error({}, "cannot write " + path_ + ": " + std::strerror(errno));
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  // By name: the assembler may have put another file there.
  std::string read() const {
    std::string out;
    const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return out;
    char buffer[1 << 16];
    for (;;) {
      const ssize_t n = ::read(fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      out.append(buffer, static_cast<std::size_t>(n));
    }
    close(fd);
    return out;
  }

 private:
  std::string path_;
  int fd_ = -1;
};

// Runs the program with both of its outputs into `log`; its exit status, or -1 where it did not end by itself.
int run(const std::vector<std::string>& command, const TemporaryFile& log) {
  std::vector<char*> arguments;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log.fd(), 1);
  posix_spawn_file_actions_adddup2(&actions, log.fd(), 2);
  pid_t child = 0;
  const int problem = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) throw_compile_error({}, "cannot run " + command[0] + ": " + std::strerror(problem));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw_compile_error({}, "cannot wait for " + command[0] + ": " + std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The number that stands before `word` in the log, summed over its occurrences: "12 bytes spill stores".
long number_before(std::string_view log, std::string_view word) {
  long sum = 0;
  for (std::size_t at = log.find(word); at != std::string_view::npos; at = log.find(word, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
    if (begin < at) sum += std::strtol(std::string(log.substr(begin, at - begin)).c_str(), nullptr, 10);
  }
  return sum;
}

Assembled by_ptxas(const std::string& program, const std::string& ptx, const std::string& target,
                   const std::string& kernel) {
  TemporaryFile source("ptx");
  const TemporaryFile cubin("cubin"), log("log");
  source.write(ptx);
  const int status = run({program, "-v", "--fmad=false", "-arch=" + target, "-o", cubin.path(), source.path()}, log);
  const std::string said = log.read();
  // C75xx: wgmma serialised, setmaxnreg ignored. The code would run, far too slowly.
  const bool degraded = said.find("(C75") != std::string::npos;
  if (status != 0 || degraded) {
    throw_compile_error({}, "ptxas (" + program + ") refuses kernel '" + kernel + "' for " + target + ":\n" + said,
                        degraded ? "" : "TILEWEAVE_DUMP=<directory> writes the PTX");
  }
  const std::string code = cubin.read();
  if (code.empty()) throw_compile_error({}, "ptxas (" + program + ") wrote no code for kernel '" + kernel + "'");
  Assembled out;
  const auto* bytes = reinterpret_cast<const std::byte*>(code.data());
  out.code.assign(bytes, bytes + code.size());
  out.meta = "assembler=ptxas registers=" + std::to_string(number_before(said, " registers")) +
             " spill_bytes=" + std::to_string(number_before(said, " bytes spill stores")) +
             " stack_bytes=" + std::to_string(number_before(said, " bytes stack frame"));
  return out;
}

Assembled by_driver(const std::string& ptx) {
  Assembled out;
  out.kind = Binary::Kind::ptx;
  const auto* bytes = reinterpret_cast<const std::byte*>(ptx.data());
  out.code.assign(bytes, bytes + ptx.size());
  out.meta = "assembler=driver";
  return out;
}

Assembled by_nvjitlink(const NvJitLink& library, const std::string& ptx, const std::string& target,
                       const std::string& kernel) {
  Assembled out;
  out.code = library.assemble(ptx, target, kernel);
  out.meta = "assembler=nvjitlink";
  return out;
}

}  // namespace

Assembled assemble(const std::string& ptx, const std::string& target, const std::string& kernel,
                   AssemblerChoice choice) {
  const bool any = choice == AssemblerChoice::automatic;
  if (choice == AssemblerChoice::driver) return by_driver(ptx);
  if (choice == AssemblerChoice::nvptxcompiler) {
    throw_compile_error({}, "kernel '" + kernel + "' cannot be assembled: libnvptxcompiler is not part of this build",
                        "set TILEWEAVE_ASSEMBLER to auto, ptxas, nvjitlink or driver");
  }
  if (any || choice == AssemblerChoice::ptxas) {
    const std::string program = find_ptxas();
    if (!program.empty()) return by_ptxas(program, ptx, target, kernel);
    if (!any) {
      throw_compile_error({}, "kernel '" + kernel + "' cannot be assembled: there is no ptxas",
                          "put it in PATH, set CUDA_HOME, or set TILEWEAVE_ASSEMBLER=auto");
    }
  }
  // It would compile a kernel that gives registers from warp to warp without doing so (C7504).
  const bool moves_registers = ptx.find("setmaxnreg") != std::string::npos;
  const NvJitLink& library = NvJitLink::get();
  if (library.is_there() && !moves_registers) return by_nvjitlink(library, ptx, target, kernel);
  if (any) return by_driver(ptx);
  throw_compile_error({},
                      "kernel '" + kernel + "' cannot be assembled: " +
                          (moves_registers ? "nvJitLink ignores setmaxnreg" : "there is no libnvJitLink.so"),
                      "set TILEWEAVE_ASSEMBLER to auto, ptxas or driver");
}

}  // namespace tileweave::codegen
