// Order keys: see lower_order.h.
// Called by cpu_sort.cpp and gpu_lower_sort.cpp.
#include "tileweave/jit/codegen/lower_order.h"

namespace tileweave::codegen {

using llvm::Value;

Value* to_order_key(ElementLowering& e, Value* x, Dtype t, bool descending) {
  llvm::IRBuilderBase& b = e.b;
  const unsigned bits = order_key_bits(t);
  llvm::Type* type = e.like(x, b.getIntNTy(bits));
  Value* key = is_bool(t) ? b.CreateZExt(x, type) : b.CreateBitCast(x, type);
  if (is_signed(t)) key = b.CreateXor(key, e.same_int(key, std::uint64_t{1} << (bits - 1)));
  if (is_float(t)) {
    // A negative number has all its bits turned, another its sign.
    Value* turn =
        b.CreateOr(b.CreateAShr(key, e.same_int(key, bits - 1)), e.same_int(key, std::uint64_t{1} << (bits - 1)));
    Value* const operands[] = {x};
    key = b.CreateSelect(e.op(ir::OpId::is_nan, t, operands), llvm::Constant::getAllOnesValue(type),
                         b.CreateXor(key, turn));
  }
  return descending ? b.CreateNot(key) : key;
}

Value* from_order_key(ElementLowering& e, Value* key, Dtype t, bool descending) {
  llvm::IRBuilderBase& b = e.b;
  const unsigned bits = order_key_bits(t);
  if (descending) key = b.CreateNot(key);
  if (is_signed(t)) key = b.CreateXor(key, e.same_int(key, std::uint64_t{1} << (bits - 1)));
  if (is_float(t)) {
    Value* was_positive = b.CreateAShr(key, e.same_int(key, bits - 1));
    Value* turn = b.CreateOr(b.CreateNot(was_positive), e.same_int(key, std::uint64_t{1} << (bits - 1)));
    key = b.CreateXor(key, turn);
  }
  if (is_bool(t)) return b.CreateTrunc(key, e.like(key, b.getInt1Ty()));
  return b.CreateBitCast(key, e.like(key, e.register_type(t)));
}

}  // namespace tileweave::codegen
