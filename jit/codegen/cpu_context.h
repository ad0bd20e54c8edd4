// What every part of the CPU lowering shares while one kernel is lowered: the builder, the arguments, scratch memory,
// and where each tile IR value stands now.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "tileweave/jit/codegen/cpu_plan.h"
#include "tileweave/jit/codegen/lower_elementwise.h"
#include "tileweave/jit/codegen/rare_paths.h"

namespace tileweave::codegen::cpu {

// What the target's vectors are like.
struct Machine {
  unsigned vector_bits = 128;
  bool has_masks = false;            // masked loads, stores and arithmetic are instructions at full width (AVX-512)
  std::int64_t streaming_bytes = 0;  // results of a view from this size on are stored past the caches; 0: never
  ElementTarget element;
};

// A view argument: its slots, read once at the kernel's entry.
struct ViewArgument {
  llvm::Value* base = nullptr;
  std::vector<llvm::Value*> extents, strides;
  ir::ViewFacts facts;
};

// A tile in scratch memory: row-major, in memory form.
struct Buffer {
  llvm::Value* base = nullptr;
  ir::Type type;
};

class DebugInfo;

struct Context {
  Context(const ir::Function& f, llvm::Function* entry, const Machine& machine);

  // --- types of tiles: pointer tiles hold addresses
  llvm::Type* register_type(const ir::Type& t, unsigned lanes = 0) const;
  llvm::Type* memory_type(const ir::Type& t, unsigned lanes = 0) const;
  llvm::Value* to_memory(llvm::Value* x, const ir::Type& t);
  llvm::Value* from_memory(llvm::Value* x, const ir::Type& t);
  static unsigned element_bytes(const ir::Type& t);

  // --- values
  // The register of a value of one element.
  llvm::Value* unit(const ir::Value* v);
  const ViewArgument& view(const ir::Value* v) const { return views.at(v); }
  llvm::Value* i64(std::int64_t v) { return b.getInt64(static_cast<std::uint64_t>(v)); }

  // --- memory
  // A stack slot that SROA turns into registers; made in the entry block.
  llvm::AllocaInst* slot(llvm::Type* t, const llvm::Twine& name = "");
  // A tile's place in scratch.
  Buffer new_buffer(const ir::Type& t);
  std::int64_t scratch_bytes() const { return scratch_bytes_; }

  // --- blocks
  llvm::BasicBlock* new_block(const llvm::Twine& name) { return llvm::BasicBlock::Create(b.getContext(), name, entry); }

  const ir::Function& f;
  llvm::Function* entry;
  const Machine machine;
  llvm::IRBuilder<> b;
  ElementLowering e;
  Planner planner;
  const RarePaths rare;
  std::unordered_map<const ir::Value*, ViewArgument> views;
  std::unordered_map<const ir::Value*, llvm::Value*> units;
  std::unordered_map<const ir::Value*, Buffer> buffers;
  llvm::Value* scratch = nullptr;  // begins with 64 bytes that accesses of no lane may touch
  llvm::Value* program[3] = {};
  llvm::Value* grid[3] = {};
  llvm::Value* services = nullptr;  // handed on unread to what the kernel calls
  DebugInfo* debug = nullptr;       // null: no debug information
  bool has_streams = false;         // the kernel must end with a store fence

 private:
  static constexpr std::int64_t spare_bytes = 64;
  std::int64_t scratch_bytes_ = spare_bytes;
};

// Emits `for (i = lo; i < last; i += step) body(i)`, tested at the bottom; gives the i it ends with. Of a loop
// whose ends are known nothing is emitted where it does not run, and only its body where it runs once.
template <class F>
llvm::Value* emit_loop(Context& c, llvm::Value* lo, llvm::Value* last, std::int64_t step, F body) {
  const auto *first = llvm::dyn_cast<llvm::ConstantInt>(lo), *end = llvm::dyn_cast<llvm::ConstantInt>(last);
  const bool known = first != nullptr && end != nullptr;
  std::int64_t trips = 0;
  if (known) {
    if (first->getSExtValue() >= end->getSExtValue()) return lo;
    trips = (end->getSExtValue() - first->getSExtValue() + step - 1) / step;
    if (trips == 1) {
      body(lo);
      return c.i64(first->getSExtValue() + step);
    }
  }
  llvm::BasicBlock *before = c.b.GetInsertBlock(), *head = c.new_block("loop"), *after = c.new_block("after");
  if (known) {
    c.b.CreateBr(head);
  } else {
    c.b.CreateCondBr(c.b.CreateICmpSLT(lo, last), head, after);
  }
  c.b.SetInsertPoint(head);
  llvm::PHINode* i = c.b.CreatePHI(c.b.getInt64Ty(), 2);
  i->addIncoming(lo, before);
  body(i);
  llvm::Value* next = c.b.CreateAdd(i, c.i64(step));
  llvm::BasicBlock* bottom = c.b.GetInsertBlock();
  i->addIncoming(next, bottom);
  c.b.CreateCondBr(c.b.CreateICmpSLT(next, last), head, after);
  c.b.SetInsertPoint(after);
  if (known) return c.i64(first->getSExtValue() + trips * step);
  llvm::PHINode* final = c.b.CreatePHI(c.b.getInt64Ty(), 2);
  final->addIncoming(lo, before);
  final->addIncoming(next, bottom);
  return final;
}

// One region; `targets` are where its terminator's tiles go (null for scalars), and its scalars come back.
struct RegionEnd {
  std::vector<llvm::Value*> scalars;  // null where the terminator gives a tile
};
RegionEnd lower_region(Context& c, const ir::Region& r, const RegionPlan& plan, const std::vector<Buffer>& targets);

// A nest for tasks that share it. `targets` as above, for keeps that are yields.
void lower_nest(Context& c, const std::vector<Task>& tasks, const std::vector<Buffer>& targets,
                const std::vector<Fetch>& fetches = {});
// An op that talks to the host (cpu_host.cpp).
void lower_host_op(Context& c, const ir::Op& op);
// A function of the user's, by its host twin (cpu_external.cpp).
void lower_external(Context& c, const ir::Op& op);
// atomic_rmw and atomic_cas (cpu_atomic.cpp).
void lower_atomic(Context& c, const ir::Op& op);
// An op of single elements.
void lower_unit_op(Context& c, const ir::Op& op);
// The value a reduction starts with, and its step.
llvm::Value* reduce_identity(ElementLowering& e, const ir::Op& op, unsigned lanes);
llvm::Value* reduce_step(ElementLowering& e, const ir::Op& op, llvm::Value* acc, llvm::Value* x);
// An op on whole tiles (is_whole_op); its operands stand in buffers, or in registers where they have one element.
void lower_whole(Context& c, const ir::Op& op);
// acc + a * b.
void lower_dot(Context& c, const ir::Op& op);
// The operand in memory, whatever it is; and the op's result, of which a buffer is made.
Buffer operand_in_memory(Context& c, const ir::Value* v);
void set_result(Context& c, const ir::Value* v, const Buffer& buffer);

}  // namespace tileweave::codegen::cpu
