// See harness.h: text to module, object, loaded code, and a grid on the machine.
// Goes the way of a real kernel from codegen/simt.h on.
#include "unit/simt/harness.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <set>
#include <stdexcept>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/primitives.h"
#include "tileweave/jit/codegen/simt.h"
#include "tileweave/jit/runtime/elf_loader.h"
#include "tileweave/jit/runtime/simt_about.h"
#include "tileweave/jit/runtime/simt_machine.h"

namespace tileweave::test {
namespace {

// "declare" lines of all primitives the text names.
std::string declarations(const std::string& body, llvm::LLVMContext& context) {
  llvm::Module m("declarations", context);
  std::set<std::string> seen;
  for (std::size_t at = body.find("@tw."); at != std::string::npos; at = body.find("@tw.", at + 1)) {
    const std::size_t end = body.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.", at + 1);
    seen.insert(body.substr(at + 1, end - at - 1));
  }
  for (const std::string& s : seen) {
    const auto use = codegen::primitive_from_name(s);
    if (!use) throw std::runtime_error("no primitive " + s);
    codegen::declare_primitive(m, *use);
  }
  std::string text;
  llvm::raw_string_ostream out(text);
  m.print(out, nullptr);
  return text;
}

std::vector<std::byte> compile(const std::string& body, std::size_t slots) {
  llvm::LLVMContext context;
  std::string parameters;
  for (std::size_t i = 0; i < slots; ++i) parameters += "i64 %p" + std::to_string(i) + ", ";
  const std::string text = declarations(body, context) + "\ndefine void @k(" + parameters +
                           "i64 %gx, i64 %gy, i64 %gz) {\n" + body + "\n}\n";
  llvm::SMDiagnostic problem;
  const std::unique_ptr<llvm::Module> m = llvm::parseAssemblyString(text, problem, context);
  if (m == nullptr) {
    std::string why;
    llvm::raw_string_ostream out(why);
    problem.print("kernel", out);
    throw std::runtime_error(out.str());
  }
  codegen::SiteTable sites;
  for (std::uint32_t line = 1; line < 100; ++line) sites.add({"kernel.cpp", line, 0});
  sites.attach(*m);
  codegen::TextTable texts;
  texts.add("x is \\ positive\nalways");
  texts.attach(*m);
  return codegen::simt_object(*m, "k");
}

}  // namespace

void run_simt(const std::string& body, const std::vector<Memory>& memories, const SimtRun& options) {
  const auto object = runtime::LoadedObject::load(compile(body, memories.size()), runtime::simt::simt_symbols());
  const auto about = runtime::simt::parse_about(reinterpret_cast<const char* (*)()>(object->function("k.about"))());
  std::vector<std::uint64_t> slots;
  std::vector<runtime::simt::GlobalRange> ranges;
  for (const Memory& m : memories) {
    const auto begin = reinterpret_cast<std::uint64_t>(m.data);
    ranges.push_back({begin, begin + static_cast<std::uint64_t>(m.bytes), static_cast<int>(slots.size())});
    slots.push_back(begin);
  }
  slots.insert(slots.end(), {static_cast<std::uint64_t>(options.blocks), 1, 1});
  ranges = runtime::simt::tidy(std::move(ranges));
  runtime::simt::Grid grid;
  grid.kernel = "k";
  grid.entry = reinterpret_cast<runtime::simt::ThreadEntry>(object->function("k.simt"));
  grid.slots = slots.data();
  grid.blocks = options.blocks;
  grid.threads = options.threads;
  grid.cluster = options.cluster;
  grid.smem_bytes = options.smem_bytes;
  grid.seed = options.seed;
  grid.ranges = ranges;
  grid.about = &about;
  runtime::simt::run_grid(grid, {});
}

std::string simt_fault(const std::string& body, const std::vector<Memory>& memories, const SimtRun& options) {
  try {
    run_simt(body, memories, options);
  } catch (const LaunchError& e) {
    return e.kind() == LaunchError::Kind::fault ? e.what() : std::string("not a fault: ") + e.what();
  }
  return "";
}

}  // namespace tileweave::test
