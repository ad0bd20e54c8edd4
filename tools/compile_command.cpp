// `tileweave compile`: reads tile IR text and writes what any stage of the compiler makes of it.
// Goes through libtileweave_jit as a program does, so it shows what a program gets.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "commands.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/jit_library.h"
#include "tileweave/jit/runtime/device.h"

namespace tileweave::tools {
namespace {
struct Request {
  std::string file, to = "bin", target = "native", out = "-";
};

std::string read(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(file, std::ios::binary);
  if (!in) throw_compile_error({}, "cannot read '" + file + "'");
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& file, std::string_view bytes) {
  if (file == "-") {
    std::cout << bytes;
    std::cout.flush();
    return;
  }
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw_compile_error({}, "cannot write '" + file + "'");
}

// "ll" for "20.ll", "ptx" for "21.ptx", "canonicalize" for "03_canonicalize"; the full name always does.
bool names(const std::string& wanted, std::string_view stage) {
  if (stage == wanted) return true;
  const auto at = stage.find_first_of("_.");
  return at != std::string_view::npos && stage.substr(at + 1) == wanted;
}

int run(const Request& r) {
  const ir::Function f = ir::parse(read(r.file));
  const std::string target = r.target == "native" ? Device::cpu().target() : r.target;
  std::string stages;
  std::optional<std::string> text;
  const Binary b = jit::compile_in_library(f, target, [&](std::string_view stage, const std::string& body) {
    stages += (stages.empty() ? "" : ", ") + std::string(stage);
    if (names(r.to, stage)) text = body + "\n";
  });
  if (r.to == "bin") {
    write(r.out, {reinterpret_cast<const char*>(b.code.data()), b.code.size()});
  } else if (text) {
    write(r.out, *text);
  } else {
    throw_compile_error({}, "no stage is called '" + r.to + "'",
                        "the stages are " + stages + " and bin; the part after the number is enough");
  }
  return 0;
}
}  // namespace

void add_compile(CLI::App& app, int& status) {
  auto request = std::make_shared<Request>();
  CLI::App* c = app.add_subcommand("compile", "write what any stage of the compiler makes of a kernel in tile IR text");
  c->add_option("file", request->file, "tile IR text, or - for standard input")->required();
  c->add_option("--to", request->to, "record, promote_vars, canonicalize, ..., ll, s or ptx, bin")
      ->capture_default_str();
  c->add_option("--target", request->target, "native, x86-64-v3, sm_80, sm_86, sm_89, sm_90a, simt:sm_90a, interpret")
      ->capture_default_str();
  c->add_option("-o,--output", request->out, "a file, or - for standard output")->capture_default_str();
  c->callback([request, &status] { status = run(*request); });
}

}  // namespace tileweave::tools
