// Atomics on the GPU: an instruction where there is one, else a loop of compare-and-swap on the word that holds the
// element. The threads that hold copies of an element leave it to the first of them.
#include <llvm/IR/Constants.h>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::codegen {

using ir::AttrKey;
using ir::Layout;
using ir::Op;
using ir::OpId;

namespace {

// What reads and modifies in one instruction; nothing where only compare-and-swap does.
std::optional<PrimitiveId> instruction(const std::string& how, Dtype t) {
  const int bits = dtype_info(t).bits;
  if (bits < 32) return std::nullopt;
  if (how == "sum") return PrimitiveId::global_atomic_add;
  if (how == "xchg") return PrimitiveId::global_atomic_xchg;
  if (is_float(t)) return std::nullopt;  // min and max of floats: a NaN wins, which no instruction knows
  if (how == "min") return PrimitiveId::global_atomic_min;
  if (how == "max") return PrimitiveId::global_atomic_max;
  if (how == "and") return PrimitiveId::global_atomic_and;
  if (how == "or") return PrimitiveId::global_atomic_or;
  return PrimitiveId::global_atomic_xor;
}

Element element_for(PrimitiveId id, Dtype t) {
  const bool wide = dtype_info(t).bits == 64;
  if (id == PrimitiveId::global_atomic_add && is_float(t)) return wide ? Element::f64 : Element::f32;
  const bool compares = id == PrimitiveId::global_atomic_min || id == PrimitiveId::global_atomic_max;
  if (compares && is_unsigned(t)) return wide ? Element::u64 : Element::u32;
  return wide ? Element::i64 : Element::i32;
}

OpId combining_op(const std::string& how) {
  if (how == "sum") return OpId::add;
  if (how == "min") return OpId::minimum;
  if (how == "max") return OpId::maximum;
  if (how == "and") return OpId::bit_and;
  return how == "or" ? OpId::bit_or : OpId::bit_xor;
}

const ir::Value* mask_of(const Op& op) { return op.attrs.get_int(AttrKey::masked) != 0 ? op.operands.back() : nullptr; }

}  // namespace

void GpuLowering::fence(const std::string& scope) {
  const PrimitiveId id = scope == "block"    ? PrimitiveId::fence_block
                         : scope == "system" ? PrimitiveId::fence_system
                                             : PrimitiveId::fence_gpu;
  c.call(id, {c.site()});
}

llvm::Value* GpuLowering::atomic_element(const Op& op, llvm::Value* address, const std::vector<llvm::Value*>& values,
                                         llvm::Value* predicate) {
  const Dtype t = op.results[0]->type.elem;
  const bool is_system = op.attrs.get_text(AttrKey::scope) == "system";
  const auto id =
      op.id == OpId::atomic_rmw && !is_system ? instruction(op.attrs.get_text(AttrKey::combine), t) : std::nullopt;
  if (!id) return atomic_by_swaps(op, address, values, predicate);
  const Element e = element_for(*id, t);
  llvm::Value* x = values[0];
  const bool as_bits = is_float(t) && e != Element::f32 && e != Element::f64;
  if (as_bits) x = c.b.CreateBitCast(x, c.elements.int_like(x));
  llvm::Value* old = c.call(*id, e, {address, x, predicate, c.site()});
  return as_bits ? c.b.CreateBitCast(old, c.elements.register_type(t)) : old;
}

// do { wanted = f(seen); } while ((found = compare_and_swap(seen, wanted)) != seen);
llvm::Value* GpuLowering::atomic_by_swaps(const Op& op, llvm::Value* address, const std::vector<llvm::Value*>& values,
                                          llvm::Value* predicate) {
  llvm::IRBuilder<>& b = c.b;
  const Dtype t = op.results[0]->type.elem;
  const int bytes = dtype_bytes(t);
  const bool is_system = op.attrs.get_text(AttrKey::scope) == "system";
  const PrimitiveId cas = is_system ? PrimitiveId::system_atomic_cas : PrimitiveId::global_atomic_cas;
  const Element e = bytes == 8 ? Element::i64 : bytes == 2 ? Element::i16 : Element::i32;
  llvm::Type* word = b.getIntNTy(bytes == 8 ? 64 : bytes == 2 ? 16 : 32);
  // A byte lies somewhere in its aligned word.
  llvm::Value* shift = nullptr;
  if (bytes == 1) {
    has_byte_atomics_ = true;
    shift = b.CreateShl(b.CreateTrunc(b.CreateAnd(address, c.i64(3)), word), std::uint64_t{3});
    address = b.CreateAnd(address, c.i64(-4));
  }
  llvm::Type* memory = c.elements.memory_type(t);
  llvm::Type* bits = b.getIntNTy(static_cast<unsigned>(8 * bytes));
  const auto bits_in = [&](llvm::Value* w) { return bytes == 1 ? b.CreateTrunc(b.CreateLShr(w, shift), bits) : w; };
  const auto element_in = [&](llvm::Value* w) {
    return c.elements.from_memory(b.CreateBitCast(bits_in(w), memory), t);
  };
  const auto bits_of = [&](llvm::Value* x) { return b.CreateBitCast(c.elements.to_memory(x, t), bits); };
  const auto with = [&](llvm::Value* w, llvm::Value* x) {
    if (bytes != 1) return x;
    llvm::Value* hole = b.CreateNot(b.CreateShl(llvm::ConstantInt::get(word, 0xff), shift));
    return b.CreateOr(b.CreateAnd(w, hole), b.CreateShl(b.CreateZExt(x, word), shift));
  };
  llvm::Constant* zero = llvm::ConstantInt::get(word, 0);
  llvm::Value* first_seen = c.call(cas, e, {address, zero, zero, predicate, c.site()});
  llvm::BasicBlock *before = b.GetInsertBlock(), *loop = c.new_block("swap"), *done = c.new_block("swapped");
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* seen = b.CreatePHI(word, 2);
  seen->addIncoming(first_seen, before);
  llvm::Value* wanted = nullptr;
  if (op.id == OpId::atomic_cas) {
    llvm::Value* equal = b.CreateICmpEQ(bits_in(seen), bits_of(values[0]));
    wanted = b.CreateSelect(equal, with(seen, bits_of(values[1])), seen);
  } else if (op.attrs.get_text(AttrKey::combine) == "xchg") {
    wanted = with(seen, bits_of(values[0]));
  } else {
    llvm::Value* operands[] = {element_in(seen), values[0]};
    wanted = with(seen, bits_of(c.elements.op(combining_op(op.attrs.get_text(AttrKey::combine)), t, operands)));
  }
  llvm::Value* found = c.call(cas, e, {address, seen, wanted, predicate, c.site()});
  llvm::Value* ends = b.CreateOr(b.CreateNot(predicate), b.CreateICmpEQ(found, seen));
  seen->addIncoming(found, b.GetInsertBlock());
  b.CreateCondBr(ends, done, loop);
  b.SetInsertPoint(done);
  return element_in(seen);
}

// The copies of an element get the old value from the thread that did the operation, through shared memory.
Regs GpuLowering::share_old_values(const Op& op, const Regs& old) {
  const ir::Value* v = op.results[0];
  const Layout& l = layout_of(v);
  llvm::Value* first = c.is_first(l.free_mask(ir::Place4::lane), l.free_mask(ir::Place4::warp));
  if (first == nullptr) return old;
  llvm::Type* type = c.elements.register_type(v->type.elem);
  const std::int64_t bytes = type->isIntegerTy(1) ? 1 : type->getPrimitiveSizeInBits() / 8;
  const std::int64_t base = scratch_.allocate(bytes * v->type.elements());
  const bool is_scalar = v->type.rank == 0;
  TileFrame frame(c, l, shape_of(v->type));
  const auto offset = [&](int r) {
    llvm::Value* index = is_scalar ? c.i32(0) : row_major_index(c, frame, r);
    return c.b.CreateAdd(c.b.CreateMul(index, c.i32(bytes)), c.i32(base));
  };
  for (std::size_t r = 0; r < old.size(); ++r) {
    if (old[r] == nullptr) continue;
    llvm::Value* exists = is_scalar ? nullptr : frame.exists(static_cast<int>(r));
    shared_store(offset(static_cast<int>(r)), old[r], c.both(first, exists));
  }
  scratch_.barrier();
  Regs shared(old.size(), nullptr);
  for (std::size_t r = 0; r < old.size(); ++r) {
    if (old[r] == nullptr) continue;
    llvm::Value* at = offset(static_cast<int>(r));
    if (llvm::Value* exists = is_scalar ? nullptr : frame.exists(static_cast<int>(r))) {
      at = c.b.CreateSelect(exists, at, c.i32(base));
    }
    shared[r] = shared_load(at, type);
  }
  return shared;
}

void GpuLowering::lower_atomic(const Op& op) {
  const ir::Value* result = op.results[0];
  const Layout& l = layout_of(result);
  const bool is_scalar = result->type.rank == 0;
  const Regs pointers = get(op.operands[0], l);
  std::vector<Regs> values;
  for (std::size_t i = 1; i < (op.id == OpId::atomic_cas ? 3U : 2U); ++i) values.push_back(get(op.operands[i], l));
  const Regs mask = mask_of(op) != nullptr ? get(mask_of(op), l) : Regs();
  order_.before(global_access(op, true), scratch_);
  const std::string &order = op.attrs.get_text(AttrKey::order), &scope = op.attrs.get_text(AttrKey::scope);
  // What the program has done so far is the work of all its threads.
  if (order == "release" || order == "acq_rel") {
    scratch_.barrier();
    fence(scope);
  }
  TileFrame frame(c, l, shape_of(result->type));
  llvm::Value* first = c.is_first(l.free_mask(ir::Place4::lane), l.free_mask(ir::Place4::warp));
  Regs old(pointers.size(), nullptr);
  for (std::size_t r = 0; r < pointers.size(); ++r) {
    if (pointers[r] == nullptr || (!is_scalar && !frame.is_live(static_cast<int>(r)))) continue;
    llvm::Value* p = c.both(first, is_scalar ? nullptr : frame.exists(static_cast<int>(r)));
    if (!mask.empty()) p = c.both(p, mask[r]);
    std::vector<llvm::Value*> lane;
    for (const Regs& x : values) lane.push_back(x[r]);
    old[r] = atomic_element(op, pointers[r], lane, p == nullptr ? c.b.getTrue() : p);
    c.split_long_block();
  }
  if (order == "acquire" || order == "acq_rel") {
    fence(scope);
    scratch_.barrier();
  }
  const auto uses = ir::count_uses(c.f);
  set(result, uses.contains(result) ? share_old_values(op, old) : old);
}

}  // namespace tileweave::codegen
