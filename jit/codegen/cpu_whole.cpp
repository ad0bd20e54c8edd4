// Ops on whole tiles on the CPU: where their operands and results stand, and the dispatch over them.
// Called by cpu_region.cpp for each task of the plan that has loops of its own.
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/cpu_context.h"
#include "tileweave/jit/codegen/cpu_whole.h"

namespace tileweave::codegen::cpu {

using ir::OpId;

Buffer operand_in_memory(Context& c, const ir::Value* v) {
  if (!is_unit(v)) return c.buffers.at(v);
  const Buffer buffer = c.new_buffer(v->type);
  c.b.CreateStore(c.to_memory(c.unit(v), v->type), buffer.base);
  return buffer;
}

llvm::Value* evaluated_in_memory(Context& c, const ir::Value* v) {
  const Buffer buffer = c.new_buffer(v->type);
  if (is_unit(v)) {
    c.b.CreateAlignedStore(c.to_memory(c.unit(v), v->type), buffer.base, llvm::Align(Context::element_bytes(v->type)));
  } else {
    Task copy;
    copy.value = v;
    copy.yield = 0;
    copy.space = v->type;
    lower_nest(c, {copy}, {buffer});
  }
  return buffer.base;
}

void set_result(Context& c, const ir::Value* v, const Buffer& buffer) {
  if (is_unit(v)) {
    c.units[v] = c.from_memory(c.b.CreateLoad(c.memory_type(v->type), buffer.base), v->type);
  } else {
    c.buffers[v] = buffer;
  }
}

void lower_whole(Context& c, const ir::Op& op) {
  switch (op.id) {
    case OpId::dot:
      return lower_dot(c, op);
    case OpId::slice:
      return lower_slice(c, op);
    case OpId::cat:
      return lower_cat(c, op);
    case OpId::flip:
      return lower_flip(c, op);
    case OpId::gather:
      return lower_gather(c, op);
    case OpId::histogram:
      return lower_histogram(c, op);
    case OpId::sort:
    case OpId::argsort:
      return lower_sort(c, op);
    case OpId::scan:
    case OpId::fold:
      return lower_scan(c, op);
    default:
      throw_internal_error(std::source_location::current(),
                           "the CPU lowering does not know " + std::string(ir::op_info(op.id).name));
  }
}

}  // namespace tileweave::codegen::cpu
