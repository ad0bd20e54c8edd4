// tileweave-fuse: turns decorated C++ functions into fusion groups; `tileweave fuse` starts it.
// For build systems and people at a shell: FILE -o HEADER, or --list for an inventory.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "clang/Tooling/CompilationDatabase.h"
#include "header.h"
#include "inventory.h"
#include "llvm/Support/raw_ostream.h"

namespace {

namespace fs = std::filesystem;
using tileweave::decorator::Parsed;

constexpr const char* usage = R"(usage: tileweave fuse FILE -o HEADER [--depfile FILE] [-p BUILD_DIR] [-- FLAGS...]
       tileweave fuse --list [FILE...] [-p BUILD_DIR] [-- FLAGS...]

Writes HEADER with a fusion group tw::fused::NAME for each function of FILE that is marked TILEWEAVE_FUSION_GROUP, or prints
every fusion group and kernel as JSON. FLAGS are the compiler's; without them they come from BUILD_DIR/compile_commands.json.
)";

struct Arguments {
  std::vector<std::string> files, flags;
  std::string output, depfile, build;
  bool list = false, has_flags = false;
};

int complain(const std::string& message) {
  llvm::errs() << "tileweave fuse: error: " << message << "\n";
  return 2;
}

bool read(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--") {
      a.has_flags = true;
      a.flags.assign(argv + i + 1, argv + argc);
      return true;
    }
    if (arg == "--list") {
      a.list = true;
    } else if (arg == "-o" && more) {
      a.output = argv[++i];
    } else if (arg == "--depfile" && more) {
      a.depfile = argv[++i];
    } else if (arg == "-p" && more) {
      a.build = argv[++i];
    } else if (arg.starts_with("-")) {
      return false;
    } else {
      a.files.push_back(arg);
    }
  }
  return true;
}

std::unique_ptr<clang::tooling::CompilationDatabase> database(const Arguments& a) {
  if (a.has_flags || a.build.empty()) return nullptr;
  std::string error;
  auto d = clang::tooling::CompilationDatabase::loadFromDirectory(a.build, error);
  if (d == nullptr) llvm::errs() << "tileweave fuse: error: " << error;
  return d;
}

std::vector<std::string> flags_of(const std::string& file, const Arguments& a, clang::tooling::CompilationDatabase* d) {
  if (d == nullptr) return tileweave::decorator::meaningful_flags(a.flags);
  const auto commands = d->getCompileCommands(fs::absolute(file).string());
  if (commands.empty()) return {};
  return tileweave::decorator::meaningful_flags(commands[0].CommandLine);
}

// Written only where it differs, so that nothing is built again for nothing; never half.
bool write(const std::string& path, const std::string& text) {
  std::error_code ignored;
  if (std::ifstream old(path); old) {
    const std::string before((std::istreambuf_iterator<char>(old)), std::istreambuf_iterator<char>());
    if (before == text) {
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
      return true;
    }
  }
  const std::string part = path + ".part";
  {
    std::ofstream out(part, std::ios::trunc);
    if (!(out << text).flush()) return false;
  }
  fs::rename(part, path, ignored);
  return !ignored;
}

int fuse(const Arguments& a, clang::tooling::CompilationDatabase* d) {
  if (a.files.size() != 1 || a.output.empty())
    return complain("give one file, and -o with the header to write\n" + std::string(usage));
  const std::string& file = a.files[0];
  std::optional<std::string> text;
  std::string dependencies;
  int errors = 0;
  tileweave::decorator::Request request{file, flags_of(file, a, d), false, [&](Parsed& parsed) {
                                          text =
                                              tileweave::decorator::header(parsed, fs::path(file).filename().string(),
                                                                           fs::path(a.output).filename().string());
                                          errors = parsed.report.errors();
                                          if (!a.depfile.empty())
                                            dependencies = tileweave::decorator::dependencies(parsed, a.output);
                                        }};
  const bool parsed = tileweave::decorator::parse(request);
  if (errors > 0) llvm::errs() << errors << (errors == 1 ? " error: " : " errors: ") << a.output << " is not written\n";
  if (!parsed || !text) return 1;
  if (!write(a.output, *text)) return complain("cannot write " + a.output);
  if (!a.depfile.empty() && !write(a.depfile, dependencies)) return complain("cannot write " + a.depfile);
  return 0;
}

int list(const Arguments& a, clang::tooling::CompilationDatabase* d) {
  std::vector<std::string> files = a.files;
  if (files.empty() && d != nullptr) files = d->getAllFiles();
  if (files.empty()) return complain("nothing to list: name files, or a build folder with -p");
  tileweave::decorator::Inventory inventory;
  bool read_all = true;
  for (const std::string& file : files) {
    tileweave::decorator::Request request{file, flags_of(file, a, d), true,
                                          [&](Parsed& parsed) { inventory.add(parsed); }};
    read_all = tileweave::decorator::parse(request) && read_all;
  }
  llvm::outs() << inventory.json() << "\n";
  return read_all ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  if (argc < 2 || !read(argc, argv, a)) {
    llvm::errs() << usage;
    return 2;
  }
  for (const std::string& file : a.files) {
    if (!fs::exists(file)) return complain("there is no file " + file);
  }
  const auto d = database(a);
  if (!a.has_flags && !a.build.empty() && d == nullptr) return 2;
  return a.list ? list(a, d.get()) : fuse(a, d.get());
}
