// Emission of layout conversions: the plans of ir/layout_conversion.h as selects, shuffles and shared memory accesses.
// Called by GpuLowering::get where a use wants another layout than the value has.
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Place4;

namespace {

int bytes_of(llvm::Type* t) { return t->isIntegerTy(1) ? 1 : static_cast<int>(t->getPrimitiveSizeInBits() / 8); }

// An i1 has no place in memory or in a shuffle: it travels as a byte.
llvm::Value* widened(GpuContext& c, llvm::Value* v) {
  return v->getType()->isIntegerTy(1) ? c.b.CreateZExt(v, c.b.getInt8Ty()) : v;
}
llvm::Type* widened_type(GpuContext& c, llvm::Type* t) { return t->isIntegerTy(1) ? c.b.getInt8Ty() : t; }
llvm::Value* narrowed(GpuContext& c, llvm::Value* v, llvm::Type* type) {
  return type->isIntegerTy(1) ? c.b.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0)) : v;
}

}  // namespace

llvm::Value* GpuLowering::shuffle(llvm::Value* v, PrimitiveId how, llvm::Value* with) {
  llvm::Type* type = v->getType();
  const unsigned bits = type->isIntegerTy(1) ? 1 : static_cast<unsigned>(type->getPrimitiveSizeInBits());
  llvm::Value* x = type->isIntegerTy(1) ? v : c.b.CreateBitCast(v, c.b.getIntNTy(bits));
  const auto move = [&](llvm::Value* word) { return c.call(how, {word, with, c.site()}); };
  if (bits <= 32) {
    x = c.b.CreateTrunc(move(c.b.CreateZExt(x, c.b.getInt32Ty())), x->getType());
  } else {
    llvm::Value* low = move(c.b.CreateTrunc(x, c.b.getInt32Ty()));
    llvm::Value* high = move(c.b.CreateTrunc(c.b.CreateLShr(x, 32), c.b.getInt32Ty()));
    x = c.b.CreateOr(c.b.CreateZExt(low, c.b.getInt64Ty()), c.b.CreateShl(c.b.CreateZExt(high, c.b.getInt64Ty()), 32));
  }
  return c.b.CreateBitCast(x, type);
}

void GpuLowering::shared_store(llvm::Value* offset, llvm::Value* v, llvm::Value* predicate) {
  v = widened(c, v);
  const int bytes = bytes_of(v->getType());
  c.call(PrimitiveId::shared_store, access_type(c, bytes).element,
         {offset, pack_elements(c, {v}, bytes), predicate == nullptr ? c.b.getTrue() : predicate, c.site()});
}

llvm::Value* GpuLowering::shared_load(llvm::Value* offset, llvm::Type* type) {
  llvm::Type* memory = widened_type(c, type);
  const int bytes = bytes_of(memory);
  llvm::Value* word =
      c.call(PrimitiveId::shared_load, access_type(c, bytes).element, {offset, c.b.getTrue(), c.site()});
  return narrowed(c, unpack_elements(c, word, 1, memory, bytes)[0], type);
}

Regs GpuLowering::convert_layout(const Regs& from, const Layout& source, const Layout& target,
                                 const ir::TileShape& shape, llvm::Type* type) {
  const ir::Conversion plan = ir::plan_conversion(source, target, bytes_of(widened_type(c, type)));
  switch (plan.kind) {
    case ir::Conversion::Kind::none:
      return from;
    case ir::Conversion::Kind::registers: {
      Regs regs;
      for (int r : plan.registers.source) regs.push_back(from[static_cast<std::size_t>(r)]);
      return regs;
    }
    case ir::Conversion::Kind::shuffle:
      return convert_by_shuffle(from, plan.shuffle, shape, target, type);
    case ir::Conversion::Kind::shared:
      return convert_through_memory(from, plan.shared, source, shape, target, type);
  }
  return from;
}

Regs GpuLowering::convert_by_shuffle(const Regs& from, const ir::ShuffleMove& move, const ir::TileShape& shape,
                                     const Layout& target, llvm::Type* type) {
  // The sender's choice: the xor of its lane's bits through sent_map, one select for each bit of the choice.
  const auto sent = [&](std::uint64_t first) {
    std::map<std::uint64_t, llvm::Value*> choices;
    const auto reg = [&](std::uint64_t r) {
      llvm::Value* v = from[r];
      return v == nullptr ? llvm::PoisonValue::get(type) : v;
    };
    // Independent images of lane bits; each doubles the choice.
    std::vector<std::uint64_t> images;
    ir::Subspace seen;
    for (std::uint64_t image : move.sent_map.columns()) {
      if (seen.add(image)) images.push_back(image);
    }
    const ir::BitMatrix basis(move.sent_map.rows(), images);
    std::vector<llvm::Value*> values;
    for (std::uint64_t pick = 0; pick < std::uint64_t{1} << images.size(); ++pick) {
      values.push_back(reg(first ^ basis.apply(pick)));
    }
    for (std::size_t i = 0; i < images.size(); ++i) {
      // Lane bits whose image contains basis vector i: their parity picks.
      std::uint64_t lanes = 0;
      for (int k = 0; k < move.sent_map.cols(); ++k) {
        if ((*basis.solve(move.sent_map.column(k)) >> i & 1) != 0) lanes |= std::uint64_t{1} << k;
      }
      llvm::Value* masked = c.b.CreateAnd(c.lane(), lanes);
      llvm::Value* odd = c.b.CreateTrunc(c.b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, masked), c.b.getInt1Ty());
      std::vector<llvm::Value*> halves;
      for (std::size_t k = 0; k < values.size(); k += 2) {
        halves.push_back(c.b.CreateSelect(odd, values[k + 1], values[k]));
      }
      values = std::move(halves);
    }
    return values[0];
  };
  const bool crosses = move.lane_map != ir::BitMatrix::identity(move.lane_map.rows());
  llvm::Value* own = crosses ? c.linear(c.b, c.lane(), move.lane_map.columns()) : c.lane();
  Regs regs(static_cast<std::size_t>(target.registers()), nullptr);
  for (std::size_t r = 0; r < regs.size(); ++r) {
    if (!shape.is_live(target, static_cast<int>(r))) continue;
    llvm::Value* v = sent(move.sent_register[r]);
    if (crosses) {
      v = shuffle(v, PrimitiveId::shuffle_idx, c.b.CreateXor(own, move.lane_offset[r]));
    } else if (move.lane_offset[r] != 0) {
      v = shuffle(v, PrimitiveId::shuffle_bfly, c.i32(static_cast<std::int64_t>(move.lane_offset[r])));
    }
    regs[r] = v;
    c.split_long_block();
  }
  return regs;
}

namespace {

// Offsets of one side of a pass through memory: the thread's part once, the register's part a constant to xor.
class SharedSide {
 public:
  SharedSide(GpuContext& c, const ir::BitMatrix& offsets, const Layout& l, int bytes, std::int64_t base)
      : c_(c), offsets_(offsets), bytes_(bytes), base_(base) {
    const auto registers = static_cast<std::size_t>(l.bits(Place4::reg));
    std::vector<std::uint64_t> bases;
    for (std::size_t i = registers; i < offsets.columns().size(); ++i) {
      bases.push_back(offsets.columns()[i] * static_cast<std::uint64_t>(bytes));
      of_thread_ |= bases.back();
    }
    thread_ = c.thread_linear(bases);
    // An aligned base may be added to the thread's part once, where a constant is or'ed to it.
    based_ = c.b.CreateAdd(thread_, c.i32(base));
  }
  llvm::Value* at(int r) {
    const std::uint64_t own = offsets_.apply(static_cast<std::uint64_t>(r)) * static_cast<std::uint64_t>(bytes_);
    if (own == 0) return based_;
    if ((own & of_thread_) == 0) return c_.b.CreateAdd(based_, c_.i32(static_cast<std::int64_t>(own)));
    return c_.b.CreateAdd(c_.b.CreateXor(thread_, own), c_.i32(base_));
  }

 private:
  GpuContext& c_;
  const ir::BitMatrix& offsets_;
  int bytes_;
  std::int64_t base_;
  std::uint64_t of_thread_ = 0;
  llvm::Value *thread_ = nullptr, *based_ = nullptr;
};

std::vector<int> group_of(int r, const std::vector<int>& units) {
  std::vector<int> group{r};
  for (int unit : units) {
    const std::size_t n = group.size();
    for (std::size_t i = 0; i < n; ++i) group.push_back(group[i] ^ unit);
  }
  return group;
}

}  // namespace

Regs GpuLowering::convert_through_memory(const Regs& from, const ir::SharedMove& move, const Layout& source,
                                         const ir::TileShape& shape, const Layout& target, llvm::Type* type) {
  llvm::Type* memory = widened_type(c, type);
  const int bytes = bytes_of(memory), count = 1 << move.memory.vector_bits;
  const std::int64_t base = scratch_.allocate(static_cast<std::int64_t>(bytes) << source.flat_bits());
  const AccessType access = access_type(c, bytes * count);

  SharedSide write(c, move.write, source, bytes, base);
  llvm::Value* first = c.is_first(source.free_mask(Place4::lane), source.free_mask(Place4::warp));
  const std::uint64_t low = static_cast<std::uint64_t>(count) - 1;
  for (int r = 0; r < source.registers(); ++r) {
    if ((move.write.apply(static_cast<std::uint64_t>(r)) & low) != 0) continue;
    // Padding is written too: threads read it along with what they use, and no byte read may be one nobody wrote.
    std::vector<llvm::Value*> values;
    for (int k : group_of(r, move.write_vector)) {
      llvm::Value* v = from[static_cast<std::size_t>(k)];
      values.push_back(v == nullptr ? llvm::Constant::getNullValue(memory) : widened(c, v));
    }
    c.call(PrimitiveId::shared_store, access.element,
           {write.at(r), pack_elements(c, values, bytes), first == nullptr ? c.b.getTrue() : first, c.site()});
    c.split_long_block();
  }
  scratch_.barrier();
  SharedSide read(c, move.read, target, bytes, base);
  Regs regs(static_cast<std::size_t>(target.registers()), nullptr);
  for (int r = 0; r < target.registers(); ++r) {
    if ((move.read.apply(static_cast<std::uint64_t>(r)) & low) != 0) continue;
    const std::vector<int> group = group_of(r, move.read_vector);
    if (std::none_of(group.begin(), group.end(), [&](int k) { return shape.is_live(target, k); })) continue;
    llvm::Value* word = c.call(PrimitiveId::shared_load, access.element, {read.at(r), c.b.getTrue(), c.site()});
    const std::vector<llvm::Value*> values = unpack_elements(c, word, count, memory, bytes);
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (shape.is_live(target, group[i])) regs[static_cast<std::size_t>(group[i])] = narrowed(c, values[i], type);
    }
    c.split_long_block();
  }
  return regs;
}

}  // namespace tileweave::codegen
