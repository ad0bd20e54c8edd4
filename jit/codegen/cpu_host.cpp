// device_print and device_assert on the CPU: calls of the services that the launch hands to the kernel.
// Called by cpu_region.cpp for each op of the plan that talks to the host.
#include "tileweave/jit/codegen/cpu_context.h"

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op, ir::OpId;
using llvm::Value;

namespace {

Value* text(Context& c, const std::string& s) { return c.b.CreateGlobalString(s, "text"); }

llvm::FunctionCallee service(Context& c, const char* name, std::initializer_list<llvm::Type*> arguments) {
  llvm::Module& m = *c.entry->getParent();
  return m.getOrInsertFunction(name, llvm::FunctionType::get(c.b.getVoidTy(), arguments, false));
}

// x + grid[0] * (y + grid[1] * z)
Value* linear_program(Context& c) {
  Value* plane = c.b.CreateAdd(c.program[1], c.b.CreateMul(c.grid[1], c.program[2]));
  return c.b.CreateAdd(c.program[0], c.b.CreateMul(c.grid[0], plane));
}

// The value's elements in memory, row by row.
Value* in_memory(Context& c, const ir::Value* v) {
  const Buffer buffer = c.new_buffer(v->type);
  if (is_unit(v)) {
    c.b.CreateAlignedStore(c.to_memory(c.unit(v), v->type), buffer.base, llvm::Align(Context::element_bytes(v->type)));
    return buffer.base;
  }
  Task copy;
  copy.value = v;
  copy.yield = 0;
  copy.space = v->type;
  lower_nest(c, {copy}, {buffer});
  return buffer.base;
}

void lower_print(Context& c, const Op& op) {
  const ir::Type& t = op.operands[0]->type;
  auto* pointer = llvm::PointerType::getUnqual(c.b.getContext());
  auto *word = c.b.getInt64Ty(), *number = c.b.getInt32Ty();
  Value* values = in_memory(c, op.operands[0]);
  const auto callee = service(c, "tileweave_print", {pointer, pointer, pointer, word, number, pointer, word});
  c.b.CreateCall(callee,
                 {c.services, text(c, op.attrs.get_text(AttrKey::place)), text(c, op.attrs.get_text(AttrKey::text)),
                  linear_program(c), c.b.getInt32(static_cast<std::uint32_t>(t.elem)), values, c.i64(t.elements())});
}

void lower_assert(Context& c, const Op& op) {
  auto* pointer = llvm::PointerType::getUnqual(c.b.getContext());
  llvm::BasicBlock *failed = c.new_block("failed"), *holds = c.new_block("holds");
  c.b.CreateCondBr(c.unit(op.operands[0]), holds, failed);
  c.b.SetInsertPoint(failed);
  Value *place = text(c, op.attrs.get_text(AttrKey::place)), *message = text(c, op.attrs.get_text(AttrKey::text));
  llvm::Type* word = c.b.getInt64Ty();
  if (op.operands.size() == 1) {
    const auto callee = service(c, "tileweave_assert_failed", {pointer, pointer, pointer, word});
    c.b.CreateCall(callee, {c.services, place, message, linear_program(c)});
  } else {
    const auto callee = service(c, "tileweave_check_failed", {pointer, pointer, pointer, word, word, word});
    c.b.CreateCall(callee,
                   {c.services, place, message, linear_program(c), c.unit(op.operands[1]), c.unit(op.operands[2])});
  }
  c.b.CreateBr(holds);
  c.b.SetInsertPoint(holds);
}

}  // namespace

void lower_host_op(Context& c, const Op& op) { op.id == OpId::print ? lower_print(c, op) : lower_assert(c, op); }

}  // namespace tileweave::codegen::cpu
