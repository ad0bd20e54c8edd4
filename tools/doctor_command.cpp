// `tileweave doctor`: what this machine has, what is wrong, and what to do about it.
// Reads only; every line says where its fact comes from.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <filesystem>

#include "commands.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/jit_library.h"
#include "tileweave/jit/runtime/device.h"

namespace tileweave::tools {
namespace {
class Report {
 public:
  void fact(std::string_view name, const std::string& value) { fmt::print("  {:<12} {}\n", name, value); }
  void problem(const std::string& what, const std::string& help) {
    fmt::print("  problem: {}\n  help:    {}\n", what, help);
    ++problems_;
  }
  int problems() const { return problems_; }

 private:
  int problems_ = 0;
};

std::string find_program(const std::string& name) {
  std::string path =
      env().path + (env().cuda_home.empty() ? "" : ":" + env().cuda_home + "/bin") + ":/usr/local/cuda/bin";
  while (!path.empty()) {
    const auto colon = path.find(':');
    const std::string candidate = path.substr(0, colon) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    path = colon == std::string::npos ? "" : path.substr(colon + 1);
  }
  return {};
}

void devices(Report& r) {
  fmt::print("devices\n");
  r.fact("cpu", Device::cpu().name() + ", " + Device::cpu().target());
  const int n = Device::count_cuda();
  for (int i = 0; i < n; ++i)
    r.fact(fmt::format("cuda:{}", i), Device::cuda(i).name() + ", " + Device::cuda(i).target());
  if (n == 0) r.fact("cuda", "none: " + Device::why_no_cuda());
  try {
    r.fact("best", Device::best().name());
  } catch (const Error& e) {
    r.problem(e.what(), "unset TILEWEAVE_DEVICE or name a device listed above");
  }
}

void compiler(Report& r) {
  fmt::print("compiler\n");
  r.fact("codegen", jit::codegen_id());
  try {
    const auto f = ir::parse("func \"doctor\"() {\n}\n");
    jit::compile_in_library(f, Device::cpu().target());
    r.fact("library", "libtileweave_jit compiles");
  } catch (const Error& e) {
    r.problem(e.what(), "install libtileweave_jit beside libtileweave; a warm cache needs none");
  }
  const std::string ptxas = find_program("ptxas");
  r.fact("ptxas", ptxas.empty() ? "not found: nvJitLink or the driver assembles PTX" : ptxas);
}

void cache(Report& r) {
  fmt::print("cache\n");
  const std::string dir = !env().cache_dir.empty()        ? env().cache_dir
                          : !env().xdg_cache_home.empty() ? env().xdg_cache_home + "/tileweave"
                          : !env().home.empty()           ? env().home + "/.cache/tileweave"
                                                          : "";
  if (dir.empty())
    return r.problem("no HOME and no TILEWEAVE_CACHE_DIR: compiled kernels live in memory only",
                     "set TILEWEAVE_CACHE_DIR to an absolute path");
  r.fact("root", dir);
  std::error_code failed;
  const auto space = std::filesystem::space(std::filesystem::exists(dir) ? dir : "/", failed);
  if (!failed) r.fact("free", fmt::format("{} MiB", space.available >> 20));
  if (std::filesystem::exists(dir) && access(dir.c_str(), W_OK) != 0)
    r.problem(dir + " cannot be written", "run `chmod u+w` on it or set TILEWEAVE_CACHE=ro to say that this is meant");
}
}  // namespace

void add_doctor(CLI::App& app, int& status) {
  CLI::App* c = app.add_subcommand("doctor", "say what this machine has, what is wrong, and what to do");
  c->callback([&status] {
    Report r;
    devices(r);
    compiler(r);
    cache(r);
    fmt::print("{}\n", r.problems() ? fmt::format("{} problems", r.problems()) : "no problems");
    status = r.problems() ? 1 : 0;
  });
}

}  // namespace tileweave::tools
