// `tileweave doctor`: what this machine has, what is wrong, and what to do about it.
// Reads only; every line says where its fact comes from.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "commands.h"
#include "tileweave/cache/cache.h"
#include "tileweave/cache/inspect.h"
#include "tileweave/jit/base/assembler.h"
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

void devices(Report& r) {
  fmt::print("devices\n");
  r.fact("cpu", Device::cpu().name() + ", " + Device::cpu().target());
  const int n = Device::count_cuda();
  for (int i = 0; i < n; ++i) {
    const Device d = Device::cuda(i);
    const int driver = d.facts().driver_version;
    r.fact(fmt::format("cuda:{}", i),
           fmt::format("{}, {}, driver for CUDA {}.{}", d.name(), d.target(), driver / 1000, driver % 1000 / 10));
  }
  if (n == 0) r.fact("cuda", "none: " + Device::why_no_cuda());
  try {
    r.fact("best", Device::best().name());
  } catch (const Error& e) {
    r.problem(e.what(), "unset TILEWEAVE_DEVICE or name a device listed above");
  }
}

bool opens(const char* library) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

void compiler(Report& r) {
  fmt::print("compiler\n");
  r.fact("codegen", jit::codegen_id());
  r.fact("llvm", jit::llvm_version());
  try {
    const auto f = ir::parse("func \"doctor\"() {\n}\n");
    jit::compile_in_library(f, Device::cpu().target());
    r.fact("library", "libtileweave_jit compiles");
  } catch (const Error& e) {
    const std::string help = "install libtileweave_jit beside libtileweave; a sealed deployment needs none";
    if (env().jit == JitMode::forbid) {
      r.fact("library", "libtileweave_jit is not usable, and TILEWEAVE_JIT=forbid wants none");
    } else {
      r.problem(e.diagnostic().message, help);
    }
  }
  const std::string ptxas = find_ptxas();
  r.fact("ptxas", ptxas.empty() ? "not found" : ptxas + ", " + ptxas_version(ptxas));
  r.fact("nvJitLink", nvjitlink_library() != nullptr ? "found, " + nvjitlink_version() : "not found");
  r.fact("NVRTC", opens("libnvrtc.so.13") || opens("libnvrtc.so.12") ? "found" : "not found");
  const AssemblerId used = assembler_id(env().assembler);
  r.fact("assembler", used.artefact == "ptx" ? "the driver, when a kernel is loaded" : used.text);
}

std::string owner_of(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return "not there";
  return fmt::format("uid {} gid {} mode {:o}", info.st_uid, info.st_gid, info.st_mode & 07777);
}

void layers(Report& r, const cache::Cache& cache, const std::string& root) {
  for (cache::Store* store : cache.stores()) {
    if (store->description() == root) continue;  // it has lines of its own
    std::size_t entries = 0;
    for (const auto& p : store->profiles()) entries += p.entries;
    r.fact("layer", fmt::format("{}: {} entries, {}", store->description(), entries, owner_of(store->description())));
  }
}

void root(Report& r, cache::DiskStore& disk, const cache::CacheSettings& settings) {
  const cache::RootSummary s = cache::summarize(disk);
  r.fact("root", disk.description() + ", " + owner_of(disk.description()));
  r.fact("holds", fmt::format("{} entries, {} bytes, {} profiles, {} temporaries", s.entries, s.bytes,
                              s.profiles.size(), s.temporaries));
  r.fact("file system", fmt::format("{}, {} MiB free", s.file_system, s.free_bytes >> 20));
  if (settings.mode == CacheMode::ro) return;
  r.fact("locks", s.locks_work ? "work" : "do not work");
  if (!s.locks_work) {
    r.problem("byte locks do not work in " + disk.description() + ": processes may compile the same kernel at once",
              "move TILEWEAVE_CACHE_DIR to a local file system, or mount NFS with version 4");
  }
  if (s.free_bytes < (std::uint64_t{64} << 20)) {
    r.problem(fmt::format("only {} KiB are free for {}", s.free_bytes >> 10, disk.description()),
              "free some space or set TILEWEAVE_CACHE_DIR to another file system");
  }
  for (const cache::Oddity& odd : s.oddities) {
    r.problem(disk.description() + "/v1/" + odd.path + " does not belong there: it is " + odd.what,
              "remove it; the cache leaves alone what it does not know");
  }
}

void caches(Report& r) {
  fmt::print("cache\n");
  cache::CacheSettings settings = cache::settings_from(env());
  std::vector<std::string> complaints;
  settings.sink = [&complaints](const std::string& line) { complaints.push_back(line); };
  r.fact("mode", env_value(env(), "TILEWEAVE_CACHE") + ", compiling " +
                     (env().jit == JitMode::forbid ? "forbidden" : "allowed"));
  const cache::Cache opened(settings);
  for (const std::string& c : complaints) {
    r.problem(c, "a directory or pack must belong to you or root, and nobody else may write it or what is above it");
  }
  if (settings.mode == CacheMode::off) return;
  layers(r, opened, settings.root);
  if (settings.root.empty()) {
    return r.problem("no HOME and no TILEWEAVE_CACHE_DIR: compiled kernels live in memory only",
                     "set TILEWEAVE_CACHE_DIR to an absolute path");
  }
  const auto stores = opened.stores();
  auto* const disk = stores.empty() ? nullptr : dynamic_cast<cache::DiskStore*>(stores.back());
  const bool is_root = disk != nullptr && disk->description() == settings.root;
  if (is_root) return root(r, *disk, settings);
  r.fact("root", settings.root + ", not in use");
}
}  // namespace

void add_doctor(CLI::App& app, int& status) {
  CLI::App* c = app.add_subcommand("doctor", "say what this machine has, what is wrong, and what to do");
  c->callback([&status] {
    Report r;
    devices(r);
    compiler(r);
    caches(r);
    fmt::print("{}\n", r.problems() ? fmt::format("{} problems", r.problems()) : "no problems");
    status = r.problems() ? 1 : 0;
  });
}

}  // namespace tileweave::tools
