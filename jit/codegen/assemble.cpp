// Finds an assembler and runs it. See assemble.h.
// ptxas runs with its files in a private directory of its own, removed whatever happens.
#include "tileweave/jit/codegen/assemble.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"

extern char** environ;

namespace tileweave::codegen {
namespace {
namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& kernel, const std::string& assembler, const std::string& log) {
  throw_compile_error({}, "kernel '" + kernel + "': " + assembler + " refuses the PTX: " + log,
                      "set TILEWEAVE_DUMP to keep the PTX, and please report it");
}

class PrivateDirectory {
 public:
  PrivateDirectory() {
    std::string name = (fs::temp_directory_path() / "tileweave-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~PrivateDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string read_file(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs a program with its output in a file; its exit status, or 127 where it cannot be started.
int run(const std::vector<std::string>& command, const fs::path& output) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void set_code(Binary& b, Binary::Kind kind, const std::string& bytes, std::string meta) {
  const auto* p = reinterpret_cast<const std::byte*>(bytes.data());
  b.kind = kind;
  b.code.assign(p, p + bytes.size());
  b.meta = std::move(meta);
}

// The lines of ptxas -v that speak of registers and spills, on one line.
std::string usage(const std::string& log) {
  std::string out;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    if (line.find("registers") != std::string::npos || line.find("spill") != std::string::npos) {
      const auto start = line.find_first_not_of(' ', line.find(':') == std::string::npos ? 0 : line.find(':') + 1);
      out += (out.empty() ? "" : "; ") + line.substr(start == std::string::npos ? 0 : start);
    }
    at = end + 1;
  }
  return out;
}

void by_ptxas(const std::string& ptxas, const std::string& ptx, const std::string& sm, const std::string& kernel,
              Binary& b) {
  const PrivateDirectory work;
  if (work.path().empty())
    throw_compile_error({}, "no temporary directory for ptxas: " + std::string(std::strerror(errno)),
                        "set TMPDIR to a directory that can be written, or TILEWEAVE_ASSEMBLER=nvjitlink");
  const fs::path source = work.path() / "kernel.ptx", object = work.path() / "kernel.cubin", log = work.path() / "log";
  std::ofstream(source, std::ios::binary) << ptx;
  const int status = run({ptxas, "-arch=" + sm, "-O3", "-v", source.string(), "-o", object.string()}, log);
  const std::string words = read_file(log);
  if (status != 0) refuse(kernel, "ptxas", "exit status " + std::to_string(status) + ": " + words);
  if (words.find("C75") != std::string::npos) refuse(kernel, "ptxas (with a C75xx advisory)", words);
  set_code(b, Binary::Kind::cubin, read_file(object), "assembler=ptxas; " + usage(words));
}

// nvJitLink's C interface, as of CUDA 12.0: the functions used.
struct JitLink {
  using Handle = void*;
  int (*create)(Handle*, std::uint32_t, const char**) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*add)(Handle, int, const void*, std::size_t, const char*) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*size)(Handle, std::size_t*) = nullptr;
  int (*get)(Handle, void*) = nullptr;
  int (*log_size)(Handle, std::size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;
};

std::optional<JitLink> open_jit_link() {
  void* library = nullptr;
  for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12", "/usr/local/cuda/lib64/libnvJitLink.so.13",
                           "/usr/local/cuda/lib64/libnvJitLink.so.12"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  bool whole = true;
  // Exported names carry the version they came in, two underscores in front.
  const auto find = [&](const char* name, auto& function) {
    void* symbol = nullptr;
    for (const char* version : {"_13_0", "_12_0"})
      if (symbol == nullptr) symbol = dlsym(library, (std::string("__") + name + version).c_str());
    if (symbol == nullptr) symbol = dlsym(library, name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    whole = whole && symbol != nullptr;
  };
  JitLink j;
  find("nvJitLinkCreate", j.create);
  find("nvJitLinkDestroy", j.destroy);
  find("nvJitLinkAddData", j.add);
  find("nvJitLinkComplete", j.complete);
  find("nvJitLinkGetLinkedCubinSize", j.size);
  find("nvJitLinkGetLinkedCubin", j.get);
  find("nvJitLinkGetErrorLogSize", j.log_size);
  find("nvJitLinkGetErrorLog", j.log);
  if (!whole) return std::nullopt;
  return j;
}

const std::optional<JitLink>& jit_link() {
  static const std::optional<JitLink> opened = open_jit_link();
  return opened;
}

void by_jit_link(const JitLink& j, const std::string& ptx, const std::string& sm, const std::string& kernel,
                 Binary& b) {
  constexpr int input_ptx = 2;
  const std::string arch = "-arch=" + sm;
  std::array<const char*, 2> options = {arch.c_str(), "-O3"};
  JitLink::Handle handle = nullptr;
  if (j.create(&handle, options.size(), options.data()) != 0) refuse(kernel, "nvJitLink", "no linker for " + sm);
  int failed = j.add(handle, input_ptx, ptx.c_str(), ptx.size() + 1, "kernel.ptx");
  if (failed == 0) failed = j.complete(handle);
  std::size_t bytes = 0;
  if (failed == 0) failed = j.size(handle, &bytes);
  std::string text(bytes, '\0');
  if (failed == 0) failed = j.get(handle, text.data());
  if (failed != 0) {
    j.log_size(handle, &bytes);
    text.assign(bytes, '\0');
    j.log(handle, text.data());
  }
  j.destroy(&handle);
  if (failed != 0) refuse(kernel, "nvJitLink", text.c_str());
  set_code(b, Binary::Kind::cubin, text, "assembler=nvjitlink");
}

[[noreturn]] void refuse_choice(const char* wanted) {
  throw_compile_error({}, std::string("TILEWEAVE_ASSEMBLER asks for ") + wanted + ", which is not on this machine",
                      "install it with the CUDA toolkit, or unset TILEWEAVE_ASSEMBLER");
}
}  // namespace

std::string find_ptxas() {
  std::string path = (env().cuda_home.empty() ? "" : env().cuda_home + "/bin:") + env().path + ":/usr/local/cuda/bin";
  while (!path.empty()) {
    const auto colon = path.find(':');
    const std::string directory = path.substr(0, colon), candidate = directory + "/ptxas";
    // A relative directory would run what lies in the working directory.
    if (directory.starts_with('/') && access(candidate.c_str(), X_OK) == 0) return candidate;
    path = colon == std::string::npos ? "" : path.substr(colon + 1);
  }
  return {};
}

void assemble(const std::string& ptx, const std::string& sm, const std::string& kernel, Binary& binary) {
  const AssemblerChoice choice = env().assembler;
  if (choice == AssemblerChoice::nvptxcompiler) refuse_choice("libnvptxcompiler");
  if (choice == AssemblerChoice::automatic || choice == AssemblerChoice::ptxas) {
    static const std::string ptxas = find_ptxas();
    if (!ptxas.empty()) return by_ptxas(ptxas, ptx, sm, kernel, binary);
    if (choice == AssemblerChoice::ptxas) refuse_choice("ptxas");
  }
  if (choice == AssemblerChoice::automatic || choice == AssemblerChoice::nvjitlink) {
    if (jit_link()) return by_jit_link(*jit_link(), ptx, sm, kernel, binary);
    if (choice == AssemblerChoice::nvjitlink) refuse_choice("nvJitLink");
  }
  set_code(binary, Binary::Kind::ptx, ptx, "assembler=driver");
}

}  // namespace tileweave::codegen
