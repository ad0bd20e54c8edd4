// What the parts of the GPU lowering share: the module under construction, the builder, the thread's identity, and
// calls of primitives. Nothing here or above knows whether the primitives become PTX or run on the host.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tileweave/jit/codegen/lower_elementwise.h"
#include "tileweave/jit/codegen/primitives.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/layout.h"

namespace tileweave::codegen {

class GpuContext {
 public:
  GpuContext(const ir::Function& f, llvm::LLVMContext& llvm, ElementTarget target, int warps, std::string entry);

  llvm::Value* call(PrimitiveId id, std::initializer_list<llvm::Value*> arguments) {
    return call(id, Element::none, arguments);
  }
  llvm::Value* call(PrimitiveId id, Element element, std::initializer_list<llvm::Value*> arguments);
  llvm::ConstantInt* i32(std::int64_t v) { return b.getInt32(static_cast<std::uint32_t>(v)); }
  llvm::ConstantInt* i64(std::int64_t v) { return b.getInt64(static_cast<std::uint64_t>(v)); }
  // The `site` argument of the op that is being lowered.
  llvm::Value* site() { return i32(site_); }
  void enter_op(const ir::Op& op);
  void set_line(const Place& place);

  // x and y, where null stands for true.
  llvm::Value* both(llvm::Value* x, llvm::Value* y) {
    if (x == nullptr || x == y) return y;
    return y == nullptr ? x : b.CreateAnd(x, y);
  }
  llvm::BasicBlock* new_block(const char* name) { return llvm::BasicBlock::Create(llvm, name, kernel); }
  // Long blocks cost LLVM quadratic time: ends the block here with a branch that no pass can see through.
  void split_long_block();

  // The part of a coordinate that the thread makes: x -> the xor of bases[i] over the bits i of thread_id. Emitted
  // once, where it dominates everything.
  llvm::Value* thread_linear(const std::vector<std::uint64_t>& bases);
  // The same of any i32.
  llvm::Value* linear(llvm::IRBuilderBase& at, llvm::Value* x, const std::vector<std::uint64_t>& bases);
  // True in the one thread among those that differ only in the bits of these masks; null where both are 0.
  llvm::Value* is_first(std::uint64_t free_lanes, std::uint64_t free_warps);

  llvm::Value* thread();
  llvm::Value* lane();
  llvm::Value* warp();

  const ir::Function& f;
  llvm::LLVMContext& llvm;
  std::unique_ptr<llvm::Module> module;
  llvm::IRBuilder<> b;
  ElementLowering elements;
  llvm::Function* kernel = nullptr;
  llvm::BasicBlock* exit = nullptr;
  const int warps, warp_bits;
  // So many warps more than `warps` run: the first loads for the others, and none takes part in what they do.
  int producer_warps = 0;
  SiteTable sites;

 private:
  // A builder at the end of the prologue, which dominates the rest.
  llvm::IRBuilder<> prologue();
  llvm::Value* cached(llvm::Value*& slot, PrimitiveId id);

  llvm::BasicBlock* prologue_;
  llvm::Value *thread_ = nullptr, *lane_ = nullptr, *warp_ = nullptr;
  std::map<std::vector<std::uint64_t>, llvm::Value*> thread_parts_;
  // Source lines (Options::debug): `.loc` directives in PTX, which profilers and cuda-gdb show.
  void begin_lines();
  std::unique_ptr<llvm::DIBuilder> lines_;
  llvm::DISubprogram* subprogram_ = nullptr;
  int site_ = 0;
  int splits_ = 0, asked_ = 0;

 public:
  // Ends the prologue: everything after goes to a block of its own.
  void end_prologue();
  // After the last op: what LLVM needs to know before it reads the lines.
  void end_lines();
};

}  // namespace tileweave::codegen
