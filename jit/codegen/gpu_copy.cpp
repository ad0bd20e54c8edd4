// Copies of a block's vectors into shared memory: asynchronous where the block lies on boundaries of 16 bytes, else
// element by element. BlockAccess's part for gpu_lower_stream.cpp.
#include <llvm/IR/Constants.h>

#include "tileweave/jit/codegen/gpu_access.h"

namespace tileweave::codegen {

// The start of every vector lies on a boundary, and none begins before the view: what is cut off is cut off at its end.
llvm::Value* BlockAccess::can_copy() {
  llvm::Value* aligned = is_aligned();
  if (block_.inbounds) return aligned;
  const auto axis = static_cast<std::size_t>(vectors_.axis);
  if (known_multiple(block_.offset_values[axis]) % vectors_.elements() == 0) return aligned;
  llvm::Value* offset = block_.offsets[axis];
  llvm::Value* rest = c_.b.CreateAnd(offset, static_cast<std::uint64_t>(vectors_.elements() - 1));
  llvm::Value* whole = c_.b.CreateICmpEQ(rest, c_.i64(0));
  return c_.both(aligned, c_.b.CreateOr(whole, c_.b.CreateICmpSGE(offset, c_.i64(0))));
}

// How many bytes of the vector that begins with register r are there, from its start on; null: all.
llvm::Value* BlockAccess::bytes_inside(int r) {
  llvm::Value* exists = frame_.exists(r);
  llvm::Value* count = nullptr;
  for (int a = 0; a < frame_.rank() && !block_.inbounds; ++a) {
    const AxisBounds at = bounds(a);
    llvm::Value* from = c_.b.CreateSub(frame_.coordinate(a, r), at.first);
    exists = c_.both(exists, c_.b.CreateICmpULT(from, at.span));
    if (a != vectors_.axis) continue;
    llvm::Value* left = c_.b.CreateSub(at.span, from);
    count = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, c_.i32(vectors_.elements()));
    count = c_.b.CreateMul(count, c_.i32(bytes_));
  }
  if (exists == nullptr) return count;
  return c_.b.CreateSelect(exists, count == nullptr ? c_.i32(vectors_.elements() * bytes_) : count, c_.i32(0));
}

void BlockAccess::copy_vector(int r, llvm::Value* to) {
  constexpr int past_l1 = 1;
  llvm::Value* count = bytes_inside(r);
  c_.call(
      PrimitiveId::async_copy, Element::v4i32,
      {to, address(r), count == nullptr ? c_.i32(vectors_.elements() * bytes_) : count, c_.i32(past_l1), c_.site()});
}

void BlockAccess::copy_singly(int r, llvm::Value* to) {
  std::vector<llvm::Value*> values;
  for (const int k : group(r)) {
    values.push_back(c_.elements.to_memory(load(k, 1, c_.both(frame_.exists(k), in_view(k)), CacheHint::none)[0],
                                           block_.view->elem));
  }
  c_.call(PrimitiveId::shared_store, access_type(c_, bytes_ * vectors_.elements()).element,
          {to, pack_elements(c_, values, bytes_), c_.b.getTrue(), c_.site()});
}

}  // namespace tileweave::codegen
