// `tileweave fuse`: starts the decorator's tool, tileweave-fuse, which stands beside this program or in the search
// path. A program of its own, because it alone links Clang.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "commands.h"

namespace tileweave::tools {
namespace {

namespace fs = std::filesystem;

// Beside this program when installed; in the build tree where the build puts it.
std::string tool_path() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& candidate : {here / "tileweave-fuse", here / "../dsl/decorator/tileweave-fuse"}) {
    if (fs::exists(candidate, ignored)) return candidate.string();
  }
  return "tileweave-fuse";
}

int start(const std::vector<std::string>& arguments) {
  const std::string tool = tool_path();
  std::vector<char*> argv{const_cast<char*>(tool.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execvp(tool.c_str(), argv.data());
  std::fprintf(
      stderr,
      "error: tileweave-fuse cannot be started: %s\n  help: install it beside tileweave, or put its folder into PATH\n",
      std::strerror(errno));
  return 127;
}

}  // namespace

int fuse(int argc, char** argv) { return start({argv, argv + argc}); }

void add_fuse(CLI::App& app) {
  app.add_subcommand("fuse",
                     "fusion groups from functions marked TILEWEAVE_FUSION_GROUP: fuse FILE -o HEADER, fuse --list");
}

}  // namespace tileweave::tools
