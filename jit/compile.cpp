// The compiler: passes, then code generation for the target. See compile.h.
#include "tileweave/jit/compile.h"

#include "tileweave/jit/codegen/codegen.h"

namespace tileweave::jit {
namespace {
// For the interpreter the "code" is the tile IR that every backend would lower.
Binary interpretable(const ir::Function& f) {
  Binary b;
  b.kind = Binary::Kind::tile_ir;
  b.entry = f.name;
  b.target = "interpret";
  const std::string text = ir::to_readable(f);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  b.code.assign(bytes, bytes + text.size());
  return b;
}
}  // namespace

Binary compile(const ir::Function& recorded, const std::string& target, const StageObserver& observe) {
  ir::Function f = recorded.clone();
  if (target == "interpret") {
    run_pipeline(f, observe);
    return interpretable(f);
  }
  const codegen::Target t = codegen::parse_target(target);
  run_pipeline(f, observe, t.kind == codegen::Target::Kind::cpu ? Backend::any : Backend::gpu);
  if (observe) {
    observe("20.ll", codegen::compile_to_text(f, t, codegen::Emit::llvm));
    observe(t.kind == codegen::Target::Kind::nvptx ? "21.ptx" : "21.s",
            codegen::compile_to_text(f, t, codegen::Emit::assembly));
  }
  Binary b = codegen::compile_to_binary(f, t);
  b.target = target;
  return b;
}

}  // namespace tileweave::jit
