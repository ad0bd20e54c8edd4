// Writes the stages of a compile into TILEWEAVE_DUMP. See dump.h.
// Called by the front door around a compile.
#include "tileweave/jit/dump.h"

#include <atomic>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "tileweave/jit/base/env.h"

namespace tileweave::jit {
namespace {
std::string as_file_name(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, 40)) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  return out;
}

const char* extension(Binary::Kind k) {
  switch (k) {
    case Binary::Kind::elf_object:
      return "22.o";
    case Binary::Kind::cubin:
      return "22.cubin";
    case Binary::Kind::ptx:
      return "22.ptx";
    case Binary::Kind::tile_ir:
      return "22.tir";
  }
  return "22.bin";
}
}  // namespace

StageObserver dump_observer(const std::string& kernel, const std::string& target, std::string& directory) {
  if (env().dump.empty()) return {};
  static std::atomic<int> compiles = 0;
  const int number = ++compiles;
  const auto folder = std::filesystem::path(env().dump) /
                      (as_file_name(kernel) + "-" + as_file_name(target.substr(0, 12)) + "-" + std::to_string(number));
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  directory = folder.string();
  return [folder](std::string_view stage, const std::string& text) {
    std::string file(stage);
    if (file.find('.') == std::string::npos) file += ".tir";
    std::ofstream(folder / file) << text << '\n';
  };
}

void dump_binary(const std::string& directory, const Binary& b) {
  if (directory.empty()) return;
  std::ofstream(std::filesystem::path(directory) / extension(b.kind), std::ios::binary)
      .write(reinterpret_cast<const char*>(b.code.data()), static_cast<std::streamsize>(b.code.size()));
}

}  // namespace tileweave::jit
