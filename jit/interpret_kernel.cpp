// Runs tile IR under the interpreter, one program after another. See interpret_kernel.h.
// With TILEWEAVE_CHECK=1 (or checked options) lanes that a view's edge clipped are reported on standard error.
#include "tileweave/jit/interpret_kernel.h"

#include <cstdio>

#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/interpret.h"

namespace tileweave::jit {
namespace {
class InterpretKernel final : public runtime::LoadedKernel {
 public:
  InterpretKernel(ir::Function f, const std::string& name) : LoadedKernel(name), function_(std::move(f)) {}

  void launch(runtime::StreamState&, const std::int64_t grid[3], const std::uint64_t* slots, int n,
              const Place&) const override {
    ir::Interpreter run(function_, {.checked = env().check || function_.options.checked});
    run.run({slots, static_cast<std::size_t>(n)}, {grid[0], grid[1], grid[2]});
    for (const ir::ClippedAccess& c : run.clipped())
      if (env().check)
        std::fprintf(stderr, "tileweave: %s: note: %lld lanes of this %s lie outside their view (kernel '%s')\n",
                     to_string(c.op->place).c_str(), static_cast<long long>(c.lanes),
                     std::string(ir::op_info(c.op->id).name).c_str(), name());
  }

 private:
  ir::Function function_;
};
}  // namespace

std::shared_ptr<const runtime::LoadedKernel> load_interpreted(const Binary& binary, const std::string& name) {
  if (binary.kind != Binary::Kind::tile_ir)
    throw_compile_error({}, "the interpreter runs tile IR, and this binary is for '" + binary.target + "'");
  const std::string_view text(reinterpret_cast<const char*>(binary.code.data()), binary.code.size());
  return std::make_shared<InterpretKernel>(ir::parse(text), name);
}

}  // namespace tileweave::jit
