// `tileweave reference`: the op pages and the knobs as Markdown, printed from the tables that define them.
// docs/reference.md is its output; a test compares the two.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>

#include "commands.h"
#include "tileweave/jit/base/dtype.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/ir/ops.h"

namespace tileweave::tools {
namespace {
std::string_view types_text(ir::OpTypes t) {
  switch (t) {
    case ir::OpTypes::Num:
      return "numbers";
    case ir::OpTypes::Float:
      return "floats";
    case ir::OpTypes::Int:
      return "integers";
    case ir::OpTypes::Bits:
      return "integers, bool";
    case ir::OpTypes::Compare:
      return "numbers, bool -> bool";
    case ir::OpTypes::Test:
      return "floats -> bool";
    case ir::OpTypes::Select:
      return "bool, T, T -> T";
    case ir::OpTypes::structural:
      return "";
  }
  return "";
}

std::string accuracy(const ir::OpInfo& op) {
  if (op.ulp == 0) return "exact";
  if (op.ulp == 0.5) return "correctly rounded";
  return fmt::format("{} ulp", op.ulp);
}

void print_reference() {
  std::puts(
      "# Reference\n\nPrinted by `tileweave reference` from the tables that define the language; edit those, not this "
      "page.\n");
  std::puts("## Element types\n\n| name | bits |\n|---|---|");
  for (int i = 0; i < dtype_count; ++i) {
    const auto info = dtype_info(static_cast<Dtype>(i));
    fmt::print("| `{}` | {} |\n", info.text, info.bits);
  }
  std::puts(
      "\n## Element-wise operations\n\nAccuracy is the largest error at f32 over all inputs; f16, bf16 and fp8 compute "
      "in f32 and round once.\n");
  std::puts("| operation | arguments | types | accuracy (f32) | meaning |\n|---|---|---|---|---|");
  for (int i = 0; i < ir::elementwise_op_count; ++i) {
    const ir::OpInfo& op = ir::op_info(static_cast<ir::OpId>(i));
    std::string text(op.text);
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    fmt::print("| `{}` | {} | {} | {} | {} |\n", op.name, op.arity, types_text(op.types), accuracy(op), text);
  }
  std::puts(
      "\n## Operations on whole tiles, memory and control flow\n\nAs they stand in tile IR, between the language and "
      "the "
      "back ends. `{}` holds attributes; a mask is a bool tile.\n");
  std::puts("| operation | meaning |\n|---|---|");
  for (int i = ir::elementwise_op_count; i < ir::op_count; ++i) {
    const ir::OpInfo& op = ir::op_info(static_cast<ir::OpId>(i));
    std::string text(op.text);
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    fmt::print("| `{}` | {} |\n", op.name, text);
  }
  std::puts("\n## Environment variables\n\n| name | accepts | in the cache key | text |\n|---|---|---|---|");
  for (const EnvRow& row : env_rows()) {
    std::string accepts(row.accepts);
    for (std::size_t at = 0; (at = accepts.find('|', at)) != std::string::npos; at += 2) accepts.insert(at, "\\");
    fmt::print("| `{}` | {} | {} | {} |\n", row.name, accepts, row.in_key ? "yes" : "no", row.text);
  }
}
}  // namespace

void add_reference(CLI::App& app, int& status) {
  CLI::App* c = app.add_subcommand("reference", "print the op table and the environment variables as Markdown");
  c->callback([&status] {
    print_reference();
    status = 0;
  });
}

}  // namespace tileweave::tools
