// `tileweave record` and `tileweave merge`: manifests from runs of a program, and one from many.
// What a manifest is: cache/manifest.h. `tileweave warmup` compiles it.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"

extern char** environ;

namespace tileweave::tools {
namespace {
namespace fs = std::filesystem;

// The files themselves, and the .rec files of directories, in order.
std::vector<std::string> manifest_files(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) {
    if (!fs::is_directory(name)) {
      files.push_back(name);
      continue;
    }
    const std::size_t first = files.size();
    for (const auto& f : fs::directory_iterator(name)) {
      if (f.path().extension() == ".rec") files.push_back(f.path().string());
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  return files;
}

void merge(const std::vector<std::string>& named, const std::string& out) {
  std::vector<cache::Manifest> manifests;
  const auto files = manifest_files(named);
  for (const std::string& file : files) {
    manifests.push_back(cache::read_manifest(file));
    if (const auto cut = manifests.back().cut_bytes) {
      fmt::print(stderr, "warning: {}: the last {} bytes are no record and are left out\n", file, cut);
    }
  }
  const auto records = cache::merge_records(manifests);
  cache::write_manifest(out, records);
  fmt::print("{}: {} records from {} files\n", out, records.size(), files.size());
}

// A directory that goes away with the object.
class Scratch {
 public:
  Scratch() : path_((env().tmpdir.empty() ? "/tmp" : env().tmpdir) + "/tileweave-record-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw_cache_error("cannot make a directory like " + path_ + ": " + std::strerror(errno),
                        "set TMPDIR to a directory that can be written");
    }
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int run_program(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ)) {
    throw_cache_error("cannot run " + command[0] + ": " + std::strerror(error));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int record(const std::vector<std::string>& command, const std::string& out) {
  const Scratch scratch;
  ::setenv("TILEWEAVE_RECORD", scratch.path().c_str(), 1);
  const int status = run_program(command);
  const auto files = manifest_files({scratch.path()});
  if (files.empty()) {
    fmt::print(stderr, "warning: {} used no kernel; {} is not written\n", command[0], out);
    return status != 0 ? status : 1;
  }
  merge(files, out);
  return status;
}

}  // namespace

void add_manifest(CLI::App& app, int& status) {
  auto inputs = std::make_shared<std::vector<std::string>>();
  auto out = std::make_shared<std::string>();
  CLI::App* m = app.add_subcommand("merge", "join manifests: every record once, sorted");
  m->add_option("manifests", *inputs, ".rec files, or directories of them")->required();
  m->add_option("-o,--output", *out, "the manifest to write")->required();
  m->callback([inputs, out, &status] {
    merge(*inputs, *out);
    status = 0;
  });
  auto command = std::make_shared<std::vector<std::string>>();
  CLI::App* r = app.add_subcommand("record", "run a program and write the manifest of what it and its children used");
  r->add_option("-o,--output", *out, "the manifest to write")->required();
  r->add_option("command", *command, "the program and its arguments, after --")->required();
  r->positionals_at_end();
  r->callback([command, out, &status] { status = record(*command, *out); });
}

}  // namespace tileweave::tools
