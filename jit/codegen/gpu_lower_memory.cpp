// Lowering of inside, load, store and the pointer ops: predicates, vectors, and who stores.
// One of gpu_lower*.cpp; addresses and bounds are BlockAccess's.
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/volatile_access.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Value;

namespace {

bool is_true(const llvm::Value* v) {
  const auto* k = llvm::dyn_cast<llvm::ConstantInt>(v);
  return k != nullptr && k->isOne();
}

std::size_t rank_of(const Op& op) { return static_cast<std::size_t>(op.operands[0]->type.rank); }
bool is_masked(const Op& op) { return op.attrs.get_int(ir::AttrKey::masked) != 0; }

const ir::Type& block_type(const Op& op) {
  return op.id == OpId::store ? op.operands[1 + rank_of(op)]->type : op.results[0]->type;
}

}  // namespace

// --- blocks of views

Block GpuLowering::block_of(const Op& op) {
  Block block;
  block.view = &views_.at(op.operands[0]);
  block.op = &op;
  block.inbounds = op.attrs.get_int(ir::AttrKey::inbounds) != 0;
  for (std::size_t a = 0; a < rank_of(op); ++a) {
    block.offset_values.push_back(op.operands[1 + a]);
    block.offsets.push_back(scalar(op.operands[1 + a]));
  }
  return block;
}

BlockAccess GpuLowering::access_of(const Op& op, const Layout& l) {
  if (version_ != Version::rotated || !is_rotated_block(op)) {
    return BlockAccess(c, block_of(op), l, shape_of(block_type(op)));
  }
  BlockAccess a(c, block_of(op), l, shape_of(block_type(op)), &*rotation_);
  if (op.id == OpId::load && a.is_aligned() == nullptr) a.set_shifted();
  return a;
}

Version GpuLowering::version_of(const Op& op, BlockAccess& a, llvm::Value*& decide) {
  const auto at = checked_.find(&op);
  if (at != checked_.end() && a.vectors().elements() <= at->second && version_ != Version::generic) return version_;
  if (version_ == Version::generic && at != checked_.end()) {
    // The check has failed somewhere, but what can be proved for this op alone still holds.
    const bool proved = a.is_inside() == nullptr && a.is_aligned() == nullptr;
    return proved ? Version::full : Version::generic;
  }
  llvm::Value* inside = a.is_inside();
  llvm::Value* aligned = a.is_aligned();
  if (inside == nullptr && aligned == nullptr) return Version::full;
  decide = c.both(inside, aligned);
  return Version::generic;
}

template <class F>
Regs GpuLowering::in_two_versions(llvm::Value* decide, F emit) {
  llvm::BasicBlock *fast = c.new_block("fast"), *slow = c.new_block("slow"), *join = c.new_block("join");
  c.b.CreateCondBr(decide, fast, slow);
  std::array<Regs, 2> results;
  std::array<llvm::BasicBlock*, 2> ends{};
  for (std::size_t i = 0; i < 2; ++i) {
    c.b.SetInsertPoint(i == 0 ? fast : slow);
    results[i] = emit(i == 0 ? Version::full : Version::generic);
    ends[i] = c.b.GetInsertBlock();
    c.b.CreateBr(join);
  }
  c.b.SetInsertPoint(join);
  Regs joined(results[0].size(), nullptr);
  for (std::size_t r = 0; r < joined.size(); ++r) {
    if (results[0][r] == nullptr) continue;
    llvm::PHINode* phi = c.b.CreatePHI(results[0][r]->getType(), 2);
    for (std::size_t i = 0; i < 2; ++i) phi->addIncoming(results[i][r], ends[i]);
    joined[r] = phi;
  }
  return joined;
}

Regs GpuLowering::inside_regs(const Op& op, const Layout& l) {
  BlockAccess a = access_of(op, l);
  Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
  const auto at = checked_.find(&op);
  const bool covered = at != checked_.end() && a.vectors().elements() <= at->second;
  const bool checked_all = version_ == Version::full || version_ == Version::rotated;
  const bool all = a.is_inside() == nullptr || (at != checked_.end() && checked_all);
  for (int r = 0; r < l.registers(); ++r) {
    if (!a.frame().is_live(r)) continue;
    auto& reg = regs[static_cast<std::size_t>(r)];
    if (all) {
      reg = c.b.getTrue();
    } else if (covered && version_ == Version::whole && a.has_vectors()) {
      if (!a.leads_group(r)) continue;
      llvm::Value* inside = a.in_view(r);
      for (int k : a.group(r)) regs[static_cast<std::size_t>(k)] = inside;
    } else {
      reg = a.in_view(r);
    }
    c.split_long_block();
  }
  return regs;
}

llvm::Value* GpuLowering::predicate_of(BlockAccess& a, Version v, int r, const Regs* mask) {
  llvm::Value* p = a.frame().exists(r);
  if (v != Version::full) p = c.both(p, a.in_view(r));
  if (mask != nullptr) {
    llvm::Value* m = (*mask)[static_cast<std::size_t>(r)];
    if (!is_true(m)) p = c.both(p, m);
  }
  return p;
}

namespace {

// True where a mask has one value for the whole vector.
bool same_in_group(const Regs* mask, const std::vector<int>& group) {
  if (mask == nullptr) return true;
  const llvm::Value* first = (*mask)[static_cast<std::size_t>(group[0])];
  return std::all_of(group.begin(), group.end(), [&](int r) { return (*mask)[static_cast<std::size_t>(r)] == first; });
}

}  // namespace

void GpuLowering::emit_load_of(const Op& op, BlockAccess& a, Version v, const Regs* mask, int r, Regs& regs) {
  const ViewSlots& view = views_.at(op.operands[0]);
  const CacheHint hint = view.is_const && !view.facts.may_alias ? CacheHint::read_only : CacheHint::none;
  const auto pad_bits = static_cast<std::uint64_t>(op.attrs.get_int(ir::AttrKey::pad));
  llvm::Constant* pad = pad_bits == 0 ? nullptr : c.elements.constant_bits(view.elem, pad_bits);
  std::vector<int> group = a.group_with(r);
  if (a.is_rotated()) {
    const std::vector<llvm::Value*> values = a.load_rotated(group, hint);
    for (std::size_t i = 0; i < group.size(); ++i) regs[static_cast<std::size_t>(group[i])] = values[i];
    return c.split_long_block();
  }
  if (v == Version::generic || !same_in_group(mask, group)) group = {r};
  // A load whose predicate is false gives 0, which is the usual pad.
  llvm::Value* p = predicate_of(a, v, group[0], mask);
  const std::vector<llvm::Value*> values = a.load(group[0], static_cast<int>(group.size()), p, hint);
  for (std::size_t i = 0; i < group.size(); ++i) {
    regs[static_cast<std::size_t>(group[i])] =
        pad == nullptr || p == nullptr ? values[i] : c.b.CreateSelect(p, values[i], pad);
  }
  c.split_long_block();
}

Regs GpuLowering::emit_load(const Op& op, BlockAccess& a, Version v, const Regs* mask) {
  Regs regs(static_cast<std::size_t>(a.frame().registers()), nullptr);
  for (int r = 0; r < a.frame().registers(); ++r) {
    if (a.frame().is_live(r) && regs[static_cast<std::size_t>(r)] == nullptr) emit_load_of(op, a, v, mask, r, regs);
  }
  return regs;
}

void GpuLowering::lower_load(const Op& op) {
  if (staged_.contains(op.results[0])) return;
  const Layout& l = layout_of(op.results[0]);
  const Regs* mask = is_masked(op) ? &get(op.operands[1 + rank_of(op)], l) : nullptr;
  order_.before(global_access(op, true), scratch_);
  order_volatile(c.b, op);
  BlockAccess a = access_of(op, l);
  llvm::Value* decide = nullptr;
  const Version v = version_of(op, a, decide);
  if (decide == nullptr && mask == nullptr && defer_load(op, a)) return;
  if (decide == nullptr) return set(op.results[0], emit_load(op, a, v, mask));
  a.prepare();
  set(op.results[0], in_two_versions(decide, [&](Version each) { return emit_load(op, a, each, mask); }));
}

void GpuLowering::emit_store(BlockAccess& a, Version v, const Value* value, const Regs* mask) {
  const Layout& l = a.frame().layout();
  llvm::Value* first = c.is_first(l.free_mask(ir::Place4::lane), l.free_mask(ir::Place4::warp));
  std::vector<bool> done(static_cast<std::size_t>(a.frame().registers()), false);
  for (int r = 0; r < a.frame().registers(); ++r) {
    if (!a.frame().is_live(r) || done[static_cast<std::size_t>(r)]) continue;
    std::vector<int> group = a.group_with(r);
    if (v == Version::generic || !same_in_group(mask, group)) group = {r};
    for (int k : group) done[static_cast<std::size_t>(k)] = true;
    if (a.is_rotated()) {
      a.store_rotated(group, rotated_values(a, value, l, group), first);
      c.split_long_block();
      continue;
    }
    const std::vector<llvm::Value*> words = rounded_words(value, l, group);
    std::vector<llvm::Value*> taken;
    if (words.empty()) {
      for (int k : group) taken.push_back(element(value, l, k));
    }
    llvm::Value* p = c.both(first, predicate_of(a, v, group[0], mask));
    if (words.empty()) {
      a.store(group[0], taken, p);
    } else {
      a.store_words(group[0], words, p);
    }
    c.split_long_block();
  }
}

// The elements of a vector as memory has them; null where there is none.
std::vector<llvm::Value*> GpuLowering::rotated_values(BlockAccess& a, const Value* value, const Layout& l,
                                                      const std::vector<int>& group) {
  const Dtype t = value->type.elem;
  std::vector<llvm::Value*> values;
  const bool all_live = std::all_of(group.begin(), group.end(), [&](int k) { return a.frame().is_live(k); });
  if (all_live) {
    const std::vector<llvm::Value*> words = rounded_words(value, l, group);
    for (llvm::Value* word : words) {
      for (llvm::Value* v : unpack_elements(c, word, 2, c.elements.memory_type(t), 2)) values.push_back(v);
    }
    if (!values.empty()) return values;
  }
  for (int k : group) {
    values.push_back(a.frame().is_live(k) ? c.elements.to_memory(element(value, l, k), t) : nullptr);
  }
  return values;
}

std::vector<llvm::Value*> GpuLowering::rounded_words(const Value* value, const Layout& l,
                                                     const std::vector<int>& group) {
  const Dtype to = value->type.elem;
  const Op* def = value->def;
  const bool halves = to == Dtype::f16 || to == Dtype::bf16;
  if (!halves || group.size() < 2 || def == nullptr || def->id != OpId::convert || !is_deferred(value) ||
      def->operands[0]->type.elem != Dtype::f32 || find_register(key(value, l), group[0]) != nullptr) {
    return {};
  }
  std::vector<llvm::Value*> words;
  for (std::size_t i = 0; i < group.size(); i += 2) {
    llvm::Value* low = element(def->operands[0], l, group[i]);
    llvm::Value* high = element(def->operands[0], l, group[i + 1]);
    words.push_back(c.call(PrimitiveId::pack, to == Dtype::f16 ? Element::f16x2 : Element::bf16x2, {low, high}));
  }
  return words;
}

void GpuLowering::lower_store(const Op& op) {
  const Value* value = op.operands[1 + rank_of(op)];
  const Layout& l = layout_of_store(op, value);
  if (l != layout_of(value)) get(value, l);
  const Regs* mask = is_masked(op) ? &get(op.operands[2 + rank_of(op)], l) : nullptr;
  const GlobalAccess access = global_access(op, true);
  // Where the store has to wait for other threads, so has what it stores: that may load.
  if (order_.conflicts(access)) get(value, l);
  order_.before(access, scratch_);
  order_volatile(c.b, op);
  BlockAccess a = access_of(op, l);
  llvm::Value* decide = nullptr;
  const Version v = version_of(op, a, decide);
  if (decide == nullptr) return emit_store(a, v, value, mask);
  get(value, l);
  a.prepare();
  in_two_versions(decide, [&](Version each) {
    emit_store(a, each, value, mask);
    return Regs{};
  });
}

// --- pointers

void GpuLowering::lower_ptr_add(const Op& op) {
  const Layout& l = layout_of(op.results[0]);
  const Regs pointers = get(op.operands[0], l), offsets = get(op.operands[1], l);
  const ir::Type& t = op.operands[1]->type;
  Regs regs(pointers.size(), nullptr);
  for (std::size_t r = 0; r < regs.size(); ++r) {
    if (pointers[r] == nullptr) continue;
    llvm::Value* offset =
        is_signed(t.elem) ? c.b.CreateSExt(offsets[r], c.b.getInt64Ty()) : c.b.CreateZExt(offsets[r], c.b.getInt64Ty());
    regs[r] = c.b.CreateAdd(pointers[r], c.b.CreateMul(offset, c.i64(dtype_bytes(op.operands[0]->type.elem))));
    c.split_long_block();
  }
  set(op.results[0], std::move(regs));
}

void GpuLowering::lower_load_ptr(const Op& op) {
  const Value* result = op.results[0];
  const Layout& l = layout_of(result);
  const Regs& pointers = get(op.operands[0], l);
  const Regs* mask = is_masked(op) ? &get(op.operands[1], l) : nullptr;
  order_.before(global_access(op, true), scratch_);
  order_volatile(c.b, op);
  TileFrame frame(c, l, shape_of(result->type));
  const Dtype elem = result->type.elem;
  llvm::Constant* pad = c.elements.constant_bits(elem, static_cast<std::uint64_t>(op.attrs.get_int(ir::AttrKey::pad)));
  Regs regs(pointers.size(), nullptr);
  for (std::size_t r = 0; r < regs.size(); ++r) {
    if (pointers[r] == nullptr) continue;
    llvm::Value* p = frame.exists(static_cast<int>(r));
    if (mask != nullptr && !is_true((*mask)[r])) p = c.both(p, (*mask)[r]);
    llvm::Value* word = c.call(PrimitiveId::global_load, access_type(c, dtype_bytes(elem)).element,
                               {pointers[r], p == nullptr ? c.b.getTrue() : p,
                                c.i32(static_cast<int>(cache_hint(op, CacheHint::none))), c.site()});
    llvm::Value* v =
        c.elements.from_memory(unpack_elements(c, word, 1, c.elements.memory_type(elem), dtype_bytes(elem))[0], elem);
    regs[r] = p == nullptr || pad->isNullValue() ? v : c.b.CreateSelect(p, v, pad);
    c.split_long_block();
  }
  set(result, std::move(regs));
}

void GpuLowering::lower_store_ptr(const Op& op) {
  const Value* value = op.operands[1];
  const Layout& l = layout_of(value);
  const Regs &pointers = get(op.operands[0], l), &values = get(value, l);
  const Regs* mask = is_masked(op) ? &get(op.operands[2], l) : nullptr;
  order_.before(global_access(op, true), scratch_);
  order_volatile(c.b, op);
  TileFrame frame(c, l, shape_of(value->type));
  const Dtype elem = value->type.elem;
  llvm::Value* first = c.is_first(l.free_mask(ir::Place4::lane), l.free_mask(ir::Place4::warp));
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] == nullptr) continue;
    llvm::Value* p = c.both(first, frame.exists(static_cast<int>(r)));
    if (mask != nullptr && !is_true((*mask)[r])) p = c.both(p, (*mask)[r]);
    llvm::Value* word = pack_elements(c, {c.elements.to_memory(values[r], elem)}, dtype_bytes(elem));
    c.call(PrimitiveId::global_store, access_type(c, dtype_bytes(elem)).element,
           {pointers[r], word, p == nullptr ? c.b.getTrue() : p,
            c.i32(static_cast<int>(cache_hint(op, CacheHint::none))), c.site()});
    c.split_long_block();
  }
}

// --- order

GlobalAccess GpuLowering::global_access(const Op& op, bool this_pass) const {
  GlobalAccess access;
  access.this_pass = this_pass;
  const bool is_atomic = op.id == OpId::atomic_rmw || op.id == OpId::atomic_cas;
  access.writes = op.id == OpId::store || op.id == OpId::store_ptr || is_atomic;
  const Value* tile = op.id == OpId::store       ? op.operands[1 + rank_of(op)]
                      : op.id == OpId::store_ptr ? op.operands[1]
                                                 : op.results[0];
  access.layout = op.id == OpId::store ? &layout_of_store(op, tile) : &layout_of(tile);
  if (op.id == OpId::load || op.id == OpId::store) {
    access.view = op.operands[0];
    access.may_alias = facts_of(op.operands[0]).may_alias;
    access.offsets.assign(op.operands.begin() + 1, op.operands.begin() + 1 + static_cast<std::ptrdiff_t>(rank_of(op)));
  }
  return access;
}

void GpuLowering::collect_accesses(const ir::Region& r, std::vector<GlobalAccess>& out) const {
  for (const auto& op : r.ops) {
    const ir::Effects effects = ir::op_info(op->id).effects;
    const bool accesses = effects == ir::Effects::reads || effects == ir::Effects::writes;
    if (accesses) out.push_back(global_access(*op, false));
    for (const auto& inner : op->regions) collect_accesses(*inner, out);
  }
}

}  // namespace tileweave::codegen
