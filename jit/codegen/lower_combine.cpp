// The region of a scan or fold, op by op: see lower_combine.h.
// Called by cpu_scan.cpp and gpu_lower_scan.cpp.
#include "tileweave/jit/codegen/lower_combine.h"

#include <source_location>
#include <unordered_map>

#include "tileweave/jit/base/error.h"

namespace tileweave::codegen {

using ir::Op;
using ir::OpId;
using llvm::Value;

Combined CombineLowering::operator()(const Combined& a, const Combined& b) const {
  std::unordered_map<const ir::Value*, Value*> values;
  for (std::size_t i = 0; i < a.size(); ++i) {
    values[region_.args[i]] = a[i];
    values[region_.args[a.size() + i]] = b[i];
  }
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(a[0]->getType());
  const auto get = [&](const ir::Value* v) {
    Value*& x = values[v];
    if (x == nullptr) x = outer_(v);
    if (vector != nullptr && !x->getType()->isVectorTy()) x = e_.b.CreateVectorSplat(vector->getNumElements(), x);
    return x;
  };
  for (const auto& op : region_.ops) {
    std::vector<Value*> operands;
    for (const ir::Value* v : op->operands) operands.push_back(get(v));
    if (op->id == OpId::yield) return operands;
    Value*& result = values[op->results[0]];
    const Dtype from = op->operands.empty() ? Dtype::f32 : op->operands.back()->type.elem;
    const Dtype to = op->results[0]->type.elem;
    switch (op->id) {
      case OpId::constant:
        result = e_.constant_bits(to, static_cast<std::uint64_t>(op->attrs.get_int(ir::AttrKey::value)));
        break;
      case OpId::convert:
        result = e_.convert(operands[0], from, to, op->attrs.get_int(ir::AttrKey::saturate) != 0);
        break;
      case OpId::bitcast:
        result = e_.bitcast(operands[0], from, to);
        break;
      case OpId::reshape:
      case OpId::broadcast:
        result = operands[0];
        break;
      default:
        result = e_.op(op->id, from, operands);
    }
  }
  throw_internal_error(std::source_location::current(), "a combining region without its end");
}

Combined CombineLowering::masked(const Combined& a, Value* has_a, const Combined& b, Value* has_b,
                                 Value*& present) const {
  Combined both = (*this)(a, b);
  for (std::size_t i = 0; i < both.size(); ++i) {
    if (has_b != nullptr) both[i] = e_.b.CreateSelect(has_b, both[i], a[i]);
    if (has_a != nullptr) both[i] = e_.b.CreateSelect(has_a, both[i], b[i]);
  }
  present = has_a == nullptr || has_b == nullptr ? nullptr : e_.b.CreateOr(has_a, has_b);
  return both;
}

}  // namespace tileweave::codegen
