// Deferred values: element-wise chains and read-only loads, emitted register by register as they are asked for.
// Between the values of the GPU lowering and its ops; without it a chain would be emitted op by op, with whole tiles of
// temporaries alive.
#include <algorithm>

#include <llvm/IR/MDBuilder.h>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/volatile_access.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Value;

namespace {

// Asking goes down a chain by recursion; longer ones are emitted in parts.
constexpr int longest_chain = 400;

bool is_lanewise(const Op& op) { return ir::is_elementwise(op.id) || op.id == OpId::convert || op.id == OpId::bitcast; }

}  // namespace

void GpuLowering::close_scope() {
  for (const Value* v : scopes_.back().deferred) {
    deferred_.erase(v);
    deferred_loads_.erase(v);
  }
  scopes_.pop_back();
}

void GpuLowering::defer_value(const Value* v, int chain) {
  deferred_[v] = chain;
  scopes_.back().deferred.push_back(v);
}

bool GpuLowering::defer(const Op& op) {
  if (!is_lanewise(op) || op.results[0]->type.rank == 0) return false;
  int chain = 0;
  for (const Value* x : op.operands) {
    const auto at = deferred_.find(x);
    if (at != deferred_.end()) chain = std::max(chain, at->second);
  }
  if (chain >= longest_chain) return false;
  defer_value(op.results[0], chain + 1);
  return true;
}

// A load that nothing can overtake: no view of the launch writes what it reads.
bool GpuLowering::defer_load(const Op& op, const BlockAccess& a) {
  const ViewSlots& view = views_.at(op.operands[0]);
  if (!view.is_const || view.facts.may_alias || is_volatile(op) || op.results[0]->type.rank == 0) return false;
  defer_value(op.results[0], 1);
  deferred_loads_[op.results[0]] = std::make_unique<BlockAccess>(a);
  return true;
}

void GpuLowering::emit_deferred() {
  // By number: emitting one may note others.
  for (std::size_t s = 0; s < scopes_.size(); ++s) {
    for (std::size_t i = 0; i < scopes_[s].deferred.size(); ++i) {
      const Value* v = scopes_[s].deferred[i];
      get(v, layout_of(v));
    }
  }
}

llvm::Value* GpuLowering::find_register(const Key& k, int r) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    for (const auto* map : {&scope->held, &scope->some}) {
      const auto at = map->find(k);
      if (at != map->end() && at->second[static_cast<std::size_t>(r)] != nullptr) {
        return at->second[static_cast<std::size_t>(r)];
      }
    }
  }
  return nullptr;
}

llvm::Value* GpuLowering::element(const Value* v, const Layout& l, int r) {
  const Key k = key(v, l);
  if (llvm::Value* known = find_register(k, r)) return known;
  llvm::Value* made = make_element(v, l, r);
  if (find_register(k, r) == nullptr) {
    Regs& some = scopes_.back().some[k];
    some.resize(static_cast<std::size_t>(l.registers()), nullptr);
    some[static_cast<std::size_t>(r)] = made;
  }
  return made;
}

// A `where` whose first value is long: computed only by threads that take it.
llvm::Value* GpuLowering::rare_element(const Op& where, const std::vector<const Value*>& before, const Layout& l,
                                       int r) {
  llvm::Value *condition = element(where.operands[0], l, r), *usual = element(where.operands[2], l, r);
  for (const Value* v : before) element(v, l, r);
  c.set_line(where.place);
  c.split_long_block();
  llvm::BasicBlock *from = c.b.GetInsertBlock(), *rare = c.new_block("rare"), *done = c.new_block("usual");
  c.b.CreateCondBr(condition, rare, done, llvm::MDBuilder(c.b.getContext()).createUnlikelyBranchWeights());
  c.b.SetInsertPoint(rare);
  open_scope();
  is_rare_ = true;
  llvm::Value* chosen = element(where.operands[1], l, r);
  is_rare_ = false;
  close_scope();
  rare = c.b.GetInsertBlock();
  c.b.CreateBr(done);
  c.b.SetInsertPoint(done);
  llvm::PHINode* result = c.b.CreatePHI(usual->getType(), 2);
  result->addIncoming(usual, from);
  result->addIncoming(chosen, rare);
  return result;
}

llvm::Value* GpuLowering::make_element(const Value* v, const Layout& l, int r) {
  if (v->def != nullptr && is_relabelling(*v->def) && v->def->operands[0]->type.elements() != 1) {
    if (const auto from = operand_layout(*v->def, l)) {
      return element(v->def->operands[0], *from, relabelled_register(*v->def, l, r));
    }
  }
  if (!is_deferred(v) || layout_of(v) != l) return get(v, l)[static_cast<std::size_t>(r)];
  const Op& op = *v->def;
  if (op.id == OpId::load) {
    BlockAccess& a = *deferred_loads_.at(v);
    llvm::Value* decide = nullptr;
    Regs& some = scopes_.back().some[key(v, l)];
    some.resize(static_cast<std::size_t>(l.registers()), nullptr);
    emit_load_of(op, a, version_of(op, a, decide), nullptr, r, some);
    return some[static_cast<std::size_t>(r)];
  }
  if (const auto* before = is_rare_ ? nullptr : rare_.before_branch(op)) return rare_element(op, *before, l, r);
  std::vector<llvm::Value*> lane;
  for (const Value* x : op.operands) lane.push_back(element(x, l, r));
  c.set_line(op.place);
  c.split_long_block();
  return elementwise_lane(op, lane);
}

}  // namespace tileweave::codegen
