// DWARF for CPU kernels: the user's lines, and in full debug builds the user's variables, which live in scratch memory.
// Made by cpu_kernel.cpp where Options::debug asks for it; cpu_region.cpp tells it of each step.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <llvm/IR/DIBuilder.h>

#include "tileweave/jit/codegen/cpu_context.h"

namespace tileweave::codegen::cpu {

class DebugInfo {
 public:
  // full: parameters and named values too; else lines alone.
  DebugInfo(Context& c, llvm::Module& m, bool full);

  // Instructions to come belong to this line.
  void set_line(const Place& p);
  // A region's own variables: names of a loop's body are not seen after it.
  void open_scope(const Place& p);
  void close_scope();

  // At the entry, once the arguments are there: views and scalars where the launch put them.
  void describe_parameters(llvm::Value* slots);
  // In every program: its place in the grid, as `program`.
  void show_program();
  // A debug_value op: the value now is what the variable shows.
  void show(const ir::Op& op);
  // After the last instruction.
  void finish();

 private:
  llvm::DIFile* file_of(const Place& p);
  llvm::DIType* element_type(Dtype t);
  llvm::DIType* type_of(const ir::Type& t);
  llvm::DIType* view_type(const ir::Type& t);
  llvm::DIType* array_of(llvm::DIType* element, unsigned element_bits, const std::vector<std::int64_t>& extents);
  void declare(llvm::Value* pointer_slot, std::int64_t offset, llvm::DILocalVariable* v, llvm::DIScope* scope,
               unsigned line);
  llvm::AllocaInst* slot_with(llvm::Value* pointer, const char* name);

  Context& c_;
  bool full_;
  llvm::DIBuilder builder_;
  llvm::DICompileUnit* unit_ = nullptr;
  llvm::DISubprogram* kernel_ = nullptr;
  std::vector<llvm::DIScope*> scopes_;
  std::map<std::string, llvm::DIFile*> files_;
  // One place in memory for each variable of a scope.
  std::map<std::tuple<llvm::DIScope*, std::string, Dtype, ir::Extents>, Buffer> variables_;
  llvm::AllocaInst *scratch_slot_ = nullptr, *slots_slot_ = nullptr, *program_ = nullptr;
};

}  // namespace tileweave::codegen::cpu
