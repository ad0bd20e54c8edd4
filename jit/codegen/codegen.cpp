// Hands a function to the back end of its target.
// The door of this box: see codegen.h.
#include "tileweave/jit/codegen/codegen.h"

namespace tileweave::codegen {

std::string compile_to_text(const ir::Function& f, const Target& t, Emit emit) {
  return t.kind == Target::Kind::cpu ? cpu_text(f, t, emit) : gpu_text(f, t, emit);
}

Binary compile_to_binary(const ir::Function& f, const Target& t) {
  return t.kind == Target::Kind::cpu ? cpu_binary(f, t) : gpu_binary(f, t);
}

}  // namespace tileweave::codegen
