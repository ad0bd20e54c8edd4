// The front of code generation: an expanded tile IR function and a target in, a Binary out.
// The only header of this box that others include; it names no LLVM.
#pragma once

#include <string>
#include <string_view>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen {

// "x86-64:<cpu>[+feature|-feature...]" or "x86-64-v3", "native"; "sm_80".."sm_90a"; "simt:sm_90a"; "aarch64:<cpu>".
struct Target {
  enum class Kind { cpu, nvptx, simt };
  Kind kind = Kind::cpu;
  std::string triple;
  std::string cpu;             // llvm name
  std::string features;        // llvm feature string
  int sm = 0;                  // 80, 86, 89, 90
  bool arch_specific = false;  // sm_90a
};
// Throws CompileError naming the known targets.
Target parse_target(std::string_view text);
// The host's own target in full ("x86-64:znver4+avx512f+..."), sorted and stable: this is what stands in a key.
std::string host_target();

// How far to go; for `tileweave compile --to` and TILEWEAVE_DUMP.
enum class Emit { llvm, assembly, binary };

// Lowers `f` (Stage::expanded; verified) for the target. Text for Emit::llvm (LLVM IR) and Emit::assembly (x86 or PTX).
std::string compile_to_text(const ir::Function& f, const Target& t, Emit emit);
Binary compile_to_binary(const ir::Function& f, const Target& t);

// One per kind of target; compile_to_* dispatch to them.
std::string cpu_text(const ir::Function& f, const Target& t, Emit emit);
Binary cpu_binary(const ir::Function& f, const Target& t);
std::string gpu_text(const ir::Function& f, const Target& t, Emit emit);  // nvptx and simt
Binary gpu_binary(const ir::Function& f, const Target& t);

}  // namespace tileweave::codegen
