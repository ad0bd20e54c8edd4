// SIMT emulation, the compiler's half: a module made by the GPU lowering becomes an object for the host.
// Beside nvptx.h: same input. The machine that runs the object is jit/runtime/simt_*.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace llvm {
class Module;
}

namespace tileweave::codegen {

// Compiles `module` (primitives declared, not defined; kernel `entry` with N i64 slots and three i64 grid extents as
// parameters) for the host as a relocatable object with the functions that load_simt_kernel looks for:
//   void <entry>.simt(const i64* slots)   the kernel for one thread; slots are the N arguments and the three extents
//   const char* <entry>.about()           the module's sites, texts and views as text (simt_about.h)
// The module is changed: its triple becomes the host's, `entry` becomes internal. Code is made for the baseline of the
// architecture, so the object runs on any host. Errors: InternalError where the module is not of this form.
std::vector<std::byte> simt_object(llvm::Module& module, const std::string& entry);
// The same as assembly, for TILEWEAVE_DUMP and `tileweave compile --to=assembly`.
std::string simt_assembly(llvm::Module& module, const std::string& entry);

}  // namespace tileweave::codegen
