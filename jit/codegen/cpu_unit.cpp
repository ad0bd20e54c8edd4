// Ops whose values are single elements: computed in registers where they stand, whatever their rank.
// Called by cpu_region.cpp for each op of the plan that needs no nest.
#include <array>
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/cpu_context.h"
#include "tileweave/jit/codegen/volatile_access.h"
#include "tileweave/jit/ir/builder.h"

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op, ir::OpId;
using llvm::Value;

namespace {

Value* and_with(Context& c, Value* a, Value* x) { return a == nullptr ? x : c.b.CreateAnd(a, x); }

// Whether the one element of the op's block lies in the view; null where it is known to.
Value* unit_inside(Context& c, const Op& op) {
  if (op.attrs.get_int(AttrKey::inbounds) != 0) return nullptr;
  const ViewArgument& view = c.view(op.operands[0]);
  Value* all = nullptr;
  for (std::size_t k = 0; k < view.extents.size(); ++k) {
    Value* offset = c.unit(op.operands[1 + k]);
    all = and_with(c, all, c.b.CreateICmpSGE(offset, c.i64(0)));
    all = c.b.CreateAnd(all, c.b.CreateICmpSLT(offset, view.extents[k]));
  }
  return all;
}

Value* unit_address(Context& c, const Op& op) {
  if (op.id == OpId::load_ptr || op.id == OpId::store_ptr) return c.unit(op.operands[0]);
  const ViewArgument& view = c.view(op.operands[0]);
  Value* elements = c.i64(0);
  for (std::size_t k = 0; k < view.extents.size(); ++k) {
    elements = c.b.CreateAdd(elements, c.b.CreateMul(c.unit(op.operands[1 + k]), view.strides[k]));
  }
  return c.b.CreateGEP(c.e.memory_type(op.operands[0]->type.elem), view.base, elements);
}

// Null where the access always happens.
Value* unit_mask(Context& c, const Op& op) {
  Value* mask = op.id == OpId::load || op.id == OpId::store ? unit_inside(c, op) : nullptr;
  const ir::Value* given = mask_of(op);
  return given == nullptr ? mask : and_with(c, mask, c.unit(given));
}

Value* unit_load(Context& c, const Op& op) {
  const ir::Type& t = op.results[0]->type;
  Value *mask = unit_mask(c, op), *from = unit_address(c, op);
  if (mask != nullptr) from = c.b.CreateSelect(mask, from, c.scratch);
  order_volatile(c.b, op);
  Value* x = c.b.CreateAlignedLoad(c.memory_type(t), from, llvm::Align(Context::element_bytes(t)), is_volatile(op));
  order_volatile(c.b, op);
  x = c.from_memory(x, t);
  if (mask == nullptr) return x;
  return c.b.CreateSelect(mask, x,
                          c.e.constant_bits(t.elem, static_cast<std::uint64_t>(op.attrs.get_int(AttrKey::pad))));
}

void unit_store(Context& c, const Op& op) {
  const ir::Value* value = stored_value(op);
  Value *mask = unit_mask(c, op), *to = unit_address(c, op);
  if (mask != nullptr) to = c.b.CreateSelect(mask, to, c.scratch);
  Value* x = c.to_memory(c.unit(value), value->type);
  order_volatile(c.b, op);
  c.b.CreateAlignedStore(x, to, llvm::Align(Context::element_bytes(value->type)), is_volatile(op));
  order_volatile(c.b, op);
}

// A reduction of one element is that element, or the identity where it is masked off. fmin and fmax of one NaN and
// -0 in a sum (0 + -0 is 0) are why the operation is done all the same.
Value* unit_reduce(Context& c, const Op& op) {
  Value *x = c.unit(op.operands[0]), *identity = reduce_identity(c.e, op, 0);
  Value* r = reduce_step(c.e, op, identity, x);
  const ir::Value* mask = mask_of(op);
  return mask == nullptr ? r : c.b.CreateSelect(c.unit(mask), r, identity);
}

Value* unit_value(Context& c, const Op& op) {
  const auto axis = static_cast<std::size_t>(op.attrs.get_int(AttrKey::axis));
  const ir::Type& t = op.results[0]->type;
  switch (op.id) {
    case OpId::constant:
      return c.unit(op.results[0]);
    case OpId::iota:
      return c.e.constant_bits(t.elem, static_cast<std::uint64_t>(op.attrs.get_int(AttrKey::start)));
    case OpId::program_id:
      return c.program[axis];
    case OpId::num_programs:
      return c.grid[axis];
    case OpId::extent:
      return c.view(op.operands[0]).extents[axis];
    case OpId::stride:
      return c.view(op.operands[0]).strides[axis];
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::reshape:
    case OpId::trans:
      return c.unit(op.operands[0]);
    case OpId::convert:
      return c.e.convert(c.unit(op.operands[0]), op.operands[0]->type.elem, t.elem,
                         op.attrs.get_int(AttrKey::saturate) != 0);
    case OpId::bitcast:
      return c.e.bitcast(c.unit(op.operands[0]), op.operands[0]->type.elem, t.elem);
    case OpId::inside: {
      Value* r = unit_inside(c, op);
      return r == nullptr ? c.b.getTrue() : r;
    }
    case OpId::load:
    case OpId::load_ptr:
      return unit_load(c, op);
    case OpId::view_base:
      return c.view(op.operands[0]).base;
    case OpId::ptr_add: {
      Value* offset = c.e.convert(c.unit(op.operands[1]), op.operands[1]->type.elem, Dtype::i64);
      return c.b.CreateGEP(c.e.memory_type(t.elem), c.unit(op.operands[0]), offset);
    }
    case OpId::reduce:
      return unit_reduce(c, op);
    case OpId::arg_reduce:
      return c.b.getInt32(0);
    default:
      throw_internal_error(std::source_location::current(),
                           "the CPU lowering does not know " + std::string(ir::op_info(op.id).name));
  }
}

}  // namespace

void lower_unit_op(Context& c, const Op& op) {
  if (op.id == OpId::store || op.id == OpId::store_ptr) return unit_store(c, op);
  if (!ir::is_elementwise(op.id)) {
    c.units[op.results[0]] = unit_value(c, op);
    return;
  }
  std::array<Value*, 3> values{};
  for (std::size_t i = 0; i < op.operands.size(); ++i) values[i] = c.unit(op.operands[i]);
  c.units[op.results[0]] = c.e.op(op.id, op.operands.back()->type.elem, std::span(values).first(op.operands.size()));
}

}  // namespace tileweave::codegen::cpu
