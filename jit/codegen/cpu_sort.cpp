// sort and argsort on the CPU: each line becomes integers (order key, then position where it matters), a bitonic
// network sorts those in vectors of the host's full width, and they become elements again.
// Part of cpu_whole.h.
#include "tileweave/jit/codegen/cpu_lines.h"
#include "tileweave/jit/codegen/cpu_whole.h"
#include "tileweave/jit/codegen/lower_order.h"

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op, ir::OpId;
using llvm::Value;

namespace {

constexpr unsigned position_bits = 32;
constexpr std::uint64_t absent_bit = std::uint64_t{1} << 31;  // of a position: the lane does not count

class Sort {
 public:
  Sort(Context& c, const Op& op)
      : c_(c),
        op_(op),
        type_(op.operands[0]->type),
        lines_(type_, static_cast<int>(op.attrs.get_int(AttrKey::axis))),
        descending_(op.attrs.get_int(AttrKey::descending) != 0),
        masked_(op.attrs.get_int(AttrKey::masked) != 0),
        indices_(op.id == OpId::argsort),
        key_bits_(order_key_bits(type_.elem)),
        padded_(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(lines_.length)))) {
    has_position_ = indices_ || masked_;
    bits_ = !has_position_ ? key_bits_ : key_bits_ <= 32 ? 64 : 128;
    item_ = c.b.getIntNTy(bits_);
    lanes_ = bits_ == 128 ? 0 : lanes_for(c, static_cast<int>(bits_), padded_);
  }

  void emit() {
    in_ = operand_in_memory(c_, op_.operands[0]);
    if (masked_) mask_ = operand_in_memory(c_, op_.operands[1]);
    out_ = c_.new_buffer(op_.results[0]->type);
    items_ = c_.new_buffer(ir::Type::tile(Dtype::u8, {padded_ * bits_ / 8})).base;
    // Columns are taken one by one; a line that lies in one piece by vectors.
    const unsigned lanes = lines_.inner == 1 ? lanes_for(c_, static_cast<int>(bits_), lines_.length) : 0;
    emit_loop(c_, c_.i64(0), c_.i64(lines_.outer), 1, [&](Value* o) {
      emit_loop(c_, c_.i64(0), c_.i64(lines_.inner), 1, [&](Value* i) {
        along(lanes, [&](Value* k, unsigned n) { store(k, make_item(o, k, i, n)); });
        emit_loop(c_, c_.i64(lines_.length), c_.i64(padded_), 1,
                  [&](Value* k) { store(k, llvm::Constant::getAllOnesValue(item_)); });
        emit_network();
        along(lanes, [&](Value* k, unsigned n) { take_item(o, k, i, load(k, n)); });
      });
    });
    set_result(c_, op_.results[0], out_);
  }

 private:
  // body(k, lanes) for the whole line: vectors, then one by one.
  template <class Body>
  void along(unsigned lanes, Body body) {
    Value* k = c_.i64(0);
    if (lanes > 1 && bits_ != 128) {
      const auto step = static_cast<std::int64_t>(lanes);
      k = emit_loop(c_, k, c_.i64(lines_.length - step + 1), step, [&](Value* at) { body(at, lanes); });
    }
    emit_loop(c_, k, c_.i64(lines_.length), 1, [&](Value* at) { body(at, 0); });
  }

  llvm::Type* item_type(unsigned lanes) {
    return lanes == 0 ? item_ : static_cast<llvm::Type*>(llvm::FixedVectorType::get(item_, lanes));
  }
  Value* load(Value* k, unsigned lanes) {
    return c_.b.CreateAlignedLoad(item_type(lanes), c_.b.CreateGEP(item_, items_, k), llvm::Align(bits_ / 8));
  }
  void store(Value* k, Value* x) {
    c_.b.CreateAlignedStore(x, c_.b.CreateGEP(item_, items_, k), llvm::Align(bits_ / 8));
  }

  Value* constant_like(llvm::Type* type, std::uint64_t v) { return llvm::ConstantInt::get(type, v); }

  Value* make_item(Value* o, Value* k, Value* i, unsigned lanes) {
    Value* at = lines_.index(c_, o, k, i);
    llvm::Type* type = item_type(lanes);
    Value* key = to_order_key(c_.e, load_elements(c_, in_, at, lanes), type_.elem, descending_);
    if (!has_position_) return key;
    Value* position = splat(c_.b.CreateTrunc(k, c_.b.getInt32Ty()), lanes);
    if (lanes != 0) {
      std::vector<llvm::Constant*> numbers;
      for (unsigned l = 0; l < lanes; ++l) numbers.push_back(c_.b.getInt32(l));
      position = c_.b.CreateAdd(position, llvm::ConstantVector::get(numbers));
    }
    if (masked_) {
      Value* counts = load_elements(c_, mask_, at, lanes);
      key = c_.b.CreateSelect(counts, key, llvm::Constant::getAllOnesValue(key->getType()));
      Value* absent = c_.b.CreateOr(position, constant_like(position->getType(), absent_bit));
      position = c_.b.CreateSelect(counts, position, absent);
    }
    Value* high = c_.b.CreateShl(c_.b.CreateZExt(key, type), constant_like(type, position_bits));
    return c_.b.CreateOr(high, c_.b.CreateZExt(position, type));
  }

  void take_item(Value* o, Value* k, Value* i, Value* item) {
    Value* at = lines_.index(c_, o, k, i);
    const auto narrowed = [&](unsigned bits) { return c_.b.CreateTrunc(item, c_.e.like(item, c_.b.getIntNTy(bits))); };
    if (indices_) {
      Value* position = narrowed(32);
      return store_elements(c_, out_, at, c_.b.CreateAnd(position, constant_like(position->getType(), absent_bit - 1)));
    }
    if (!has_position_) return store_elements(c_, out_, at, from_order_key(c_.e, item, type_.elem, descending_));
    Value* absent = c_.b.CreateICmpNE(c_.b.CreateAnd(item, constant_like(item->getType(), absent_bit)),
                                      constant_like(item->getType(), 0));
    item = c_.b.CreateLShr(item, constant_like(item->getType(), position_bits));
    Value* x = from_order_key(c_.e, narrowed(key_bits_), type_.elem, descending_);
    store_elements(c_, out_, at, c_.b.CreateSelect(absent, llvm::Constant::getNullValue(x->getType()), x));
  }

  Value* splat(Value* v, unsigned lanes) { return lanes == 0 ? v : c_.b.CreateVectorSplat(lanes, v); }
  std::int64_t width() const { return std::max<std::int64_t>(lanes_, 1); }

  // Batcher's bitonic network: for each size, for each stride below it, the lesser of two items goes first where the
  // size's bit of their place is 0.
  void emit_network() {
    if (lanes_ != 0) emit_loop(c_, c_.i64(0), c_.i64(padded_), width(), [&](Value* at) { sort_vector(at); });
    for (std::int64_t size = 2 * width(); size <= padded_; size *= 2) {
      for (std::int64_t stride = size / 2; stride >= width(); stride /= 2) exchange(size, stride);
      if (lanes_ == 0) continue;
      emit_loop(c_, c_.i64(0), c_.i64(padded_), width(), [&](Value* at) {
        Value* x = load(at, lanes_);
        for (unsigned stride = lanes_ / 2; stride > 0; stride /= 2) x = exchange_lanes(x, stride, ascends(at, size));
        store(at, x);
      });
    }
  }

  // Whether the items from `at` on go upwards in this size's step; the last one always does.
  Value* ascends(Value* at, std::int64_t size) {
    if (size == padded_) return c_.b.getTrue();
    return c_.b.CreateICmpEQ(c_.b.CreateAnd(at, c_.i64(size)), c_.i64(0));
  }

  void exchange(std::int64_t size, std::int64_t stride) {
    emit_loop(c_, c_.i64(0), c_.i64(padded_ / 2), width(), [&](Value* j) {
      Value* low = c_.b.CreateAnd(j, c_.i64(stride - 1));
      Value* at = c_.b.CreateOr(c_.b.CreateShl(c_.b.CreateXor(j, low), c_.i64(1)), low);
      Value* other = c_.b.CreateAdd(at, c_.i64(stride));
      Value *a = load(at, lanes_), *z = load(other, lanes_);
      Value *least = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, z),
            *most = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, z);
      Value* up = ascends(at, size);
      store(at, c_.b.CreateSelect(up, least, most));
      store(other, c_.b.CreateSelect(up, most, least));
    });
  }

  // Within a vector: lanes that differ in the stride's bit. `up` is one flag, or one a lane.
  Value* exchange_lanes(Value* x, unsigned stride, Value* up) {
    Value* other = permute(c_, x, [&](int l) { return l ^ static_cast<int>(stride); });
    Value *least = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, other),
          *most = c_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, other);
    Value* first = lane_flags(c_, lanes_, [&](unsigned l) { return (l & stride) == 0; });
    if (!up->getType()->isVectorTy()) up = c_.b.CreateVectorSplat(lanes_, up);
    return c_.b.CreateSelect(c_.b.CreateXor(first, up), most, least);
  }

  void sort_vector(Value* at) {
    Value* x = load(at, lanes_);
    for (unsigned size = 2; size <= lanes_; size *= 2) {
      Value* up = size == lanes_ ? ascends(at, static_cast<std::int64_t>(size))
                                 : lane_flags(c_, lanes_, [&](unsigned l) { return (l & size) == 0; });
      for (unsigned stride = size / 2; stride > 0; stride /= 2) x = exchange_lanes(x, stride, up);
    }
    store(at, x);
  }

  Context& c_;
  const Op& op_;
  const ir::Type type_;
  const Lines lines_;
  const bool descending_, masked_, indices_;
  const unsigned key_bits_;
  const std::int64_t padded_;
  bool has_position_ = false;
  unsigned bits_ = 0, lanes_ = 0;
  llvm::Type* item_ = nullptr;
  Buffer in_, mask_, out_;
  Value* items_ = nullptr;
};

}  // namespace

void lower_sort(Context& c, const Op& op) { Sort(c, op).emit(); }

}  // namespace tileweave::codegen::cpu
