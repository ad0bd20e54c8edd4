// The shared state of one kernel's lowering: see cpu_context.h.
// Made by cpu_kernel.cpp, used by everything named cpu_*.
#include "tileweave/jit/codegen/cpu_context.h"

#include <source_location>

#include "tileweave/jit/base/error.h"

namespace tileweave::codegen::cpu {

using llvm::Value;

Context::Context(const ir::Function& function, llvm::Function* entry_function, const Machine& m)
    : f(function),
      entry(entry_function),
      machine(m),
      b(entry_function->getContext()),
      e(b, m.element),
      planner(function),
      rare(function) {}

llvm::Type* Context::register_type(const ir::Type& t, unsigned lanes) const {
  if (!t.is_pointer()) return e.register_type(t.elem, lanes);
  llvm::Type* p = llvm::PointerType::getUnqual(b.getContext());
  return lanes == 0 ? p : llvm::FixedVectorType::get(p, lanes);
}

llvm::Type* Context::memory_type(const ir::Type& t, unsigned lanes) const {
  return t.is_pointer() ? register_type(t, lanes) : e.memory_type(t.elem, lanes);
}

Value* Context::to_memory(Value* x, const ir::Type& t) { return t.is_pointer() ? x : e.to_memory(x, t.elem); }
Value* Context::from_memory(Value* x, const ir::Type& t) { return t.is_pointer() ? x : e.from_memory(x, t.elem); }

unsigned Context::element_bytes(const ir::Type& t) {
  return t.is_pointer() ? 8 : static_cast<unsigned>(dtype_bytes(t.elem));
}

Value* Context::unit(const ir::Value* v) {
  const auto at = units.find(v);
  if (at != units.end()) return at->second;
  // Constants have no step of their own.
  if (v->def != nullptr && v->def->id == ir::OpId::constant) {
    return e.constant_bits(v->type.elem, static_cast<std::uint64_t>(v->def->attrs.get_int(ir::AttrKey::value)));
  }
  throw_internal_error(std::source_location::current(),
                       "a scalar is used before it is made" +
                           (v->def == nullptr ? std::string() : ", by " + std::string(ir::op_info(v->def->id).name)));
}

llvm::AllocaInst* Context::slot(llvm::Type* t, const llvm::Twine& name) {
  llvm::IRBuilder<> at(&entry->getEntryBlock(), entry->getEntryBlock().begin());
  return at.CreateAlloca(t, nullptr, name);
}

Buffer Context::new_buffer(const ir::Type& t) {
  const std::int64_t offset = scratch_bytes_;
  const std::int64_t bytes = t.elements() * element_bytes(t);
  // A vector that starts at the last element stays inside.
  scratch_bytes_ += (bytes + 63) / 64 * 64 + 64;
  return {b.CreateGEP(b.getInt8Ty(), scratch, i64(offset)), t};
}

}  // namespace tileweave::codegen::cpu
