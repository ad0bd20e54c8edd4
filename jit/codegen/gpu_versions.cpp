// The versions of a kernel: one check before the body decides which the program runs.
// Between the prologue and the ops: a full block costs no predicates, and a ragged one is still right.
#include <algorithm>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::codegen {

using ir::Op;
using ir::OpId;
using ir::Value;

namespace {

bool is_block_op(OpId id) { return id == OpId::load || id == OpId::store || id == OpId::inside; }

// About how many LLVM instructions one version takes.
std::int64_t size_of(const ir::Region& r, const LayoutMap& layouts) {
  std::int64_t size = 0;
  for (const auto& op : r.ops) {
    for (const Value* v : op->results) {
      size += v->type.is_view() || v->type.rank == 0 ? 1 : layouts.of(v).registers();
    }
    for (const auto& inner : op->regions) size += size_of(*inner, layouts);
  }
  return size;
}

// Past this, ragged blocks run the generic version alone: compiling a third costs more than it gains.
constexpr std::int64_t size_for_three = 4000;

}  // namespace

// A scalar that can be worked out before the body: pure ops on parameters and the program's place.
bool GpuLowering::is_known_early(const Value* v) const {
  if (v->type.is_view()) return true;
  if (v->def == nullptr) return v->region == &c.f.body() || v->region == nullptr;
  const Op& op = *v->def;
  if (v->type.rank != 0 || op.regions.size() != 0) return false;
  const bool pure = ir::op_info(op.id).effects == ir::Effects::pure;
  const bool cheap = ir::is_elementwise(op.id) || op.id == OpId::convert || op.id == OpId::bitcast ||
                     op.id == OpId::constant || op.id == OpId::program_id || op.id == OpId::num_programs ||
                     op.id == OpId::extent || op.id == OpId::stride;
  return pure && cheap &&
         std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* x) { return is_known_early(x); });
}

void GpuLowering::lower_early(const Value* v) {
  if (v->type.is_view() || v->def == nullptr || find(v, scalar_layout_) != nullptr) return;
  for (const Value* x : v->def->operands) lower_early(x);
  lower_op(*v->def);
}

// Loops of products are long and check their own blocks: they are emitted once, before the versions part.
std::size_t GpuLowering::shared_ops() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < c.f.body().ops.size() && !dots_.empty(); ++i) {
    bool multiplies = dots_.of(*c.f.body().ops[i]) != nullptr;
    for (const auto& inner : c.f.body().ops[i]->regions) {
      ir::for_each_op(*inner, [&](const Op& op) { multiplies |= dots_.of(op) != nullptr; });
    }
    if (multiplies) count = i + 1;
  }
  return count;
}

void GpuLowering::collect_checked(const ir::Region& r, std::size_t shared) {
  for (std::size_t i = 0; i < r.ops.size(); ++i) {
    const auto& op = r.ops[i];
    // A mask is made where it is used.
    if (i < shared && op->id != OpId::inside) continue;
    for (const auto& inner : op->regions) collect_checked(*inner, 0);
    if (!is_block_op(op->id)) continue;
    const auto rank = static_cast<std::ptrdiff_t>(op->operands[0]->type.rank);
    const auto first = op->operands.begin() + 1;
    if (!std::all_of(first, first + rank, [&](const Value* v) { return is_known_early(v); })) continue;
    std::for_each(first, first + rank, [&](const Value* v) { lower_early(v); });
    checked_order_.push_back(op.get());
  }
}

void GpuLowering::lower_version(Version v, llvm::BasicBlock* block, std::size_t first) {
  c.b.SetInsertPoint(block);
  version_ = v;
  const GlobalOrder before = order_;
  if (first == 0) {
    scratch_.restart();
  } else {
    scratch_.forget();
  }
  moments_.clear();
  open_scope();
  lower_ops(c.f.body(), first, c.f.body().ops.size());
  close_scope();
  order_ = before;
  c.b.CreateBr(c.exit);
}

void GpuLowering::lower_versions() {
  const std::size_t shared = shared_ops();
  collect_checked(c.f.body(), shared);
  llvm::Value *full = nullptr, *whole = nullptr;
  bool has_vectors = false;
  for (const Op* op : checked_order_) {
    const Value* tile =
        op->id == OpId::store ? op->operands[static_cast<std::size_t>(1 + op->operands[0]->type.rank)] : op->results[0];
    BlockAccess a = access_of(*op, op->id == OpId::store ? layout_of_store(*op, tile) : layout_of(tile));
    checked_[op] = a.vectors().elements();
    has_vectors |= a.vectors().elements() > 1;
    llvm::Value* aligned = op->id == OpId::inside ? nullptr : a.is_aligned();
    full = c.both(full, c.both(a.is_inside(), aligned));
    whole = c.both(whole, c.both(a.is_whole(), aligned));
  }
  if (shared > 0) {
    lower_ops(c.f.body(), 0, shared);
    emit_deferred();
  }
  if (checked_.empty()) return lower_version(Version::generic, c.b.GetInsertBlock(), shared);
  if (shared == 0 && lower_rotated()) return;
  if (full == nullptr) return lower_version(Version::full, c.b.GetInsertBlock(), shared);
  llvm::BasicBlock *fast = c.new_block("full"), *ragged = c.new_block("ragged");
  c.b.CreateCondBr(full, fast, ragged);
  lower_version(Version::full, fast, shared);
  const bool three = has_vectors && size_of(c.f.body(), layouts_) < size_for_three;
  if (!three) return lower_version(Version::generic, ragged, shared);
  if (whole == nullptr) return lower_version(Version::whole, ragged, shared);
  llvm::BasicBlock *vectors = c.new_block("whole"), *generic = c.new_block("generic");
  c.b.SetInsertPoint(ragged);
  c.b.CreateCondBr(whole, vectors, generic);
  lower_version(Version::whole, vectors, shared);
  lower_version(Version::generic, generic, shared);
}

}  // namespace tileweave::codegen
